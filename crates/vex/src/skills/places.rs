//! The folders in which skills are found, within bounds and without leaving a place by a link.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::text::shown;

/// The name of the file that makes a folder a skill.
pub(super) const FILE: &str = "SKILL.md";

/// Where skills are, below a project's folders and below the user's home; the first one wins.
const PLACES: [&str; 2] = [".agents/skills", ".claude/skills"];

/// The depth of folders below a place.
const MAX_DEPTH: usize = 4;

/// The maximum number of folders that one run visits in the places of one origin.
pub(super) const MAX_FOLDERS: usize = 2000;

/// The maximum number of entries that one run reads of the folders of one origin.
const MAX_ENTRIES: usize = 20_000;

/// A folder below which skills are searched.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    path: PathBuf,
    /// Its own links and those in it may lead to these folders only.
    within: Vec<PathBuf>,
}

/// Returns the project of a folder: the nearest folder above it that is a repository, else itself.
pub(super) fn project_of(cwd: &Path) -> &Path {
    let is_repository = |folder: &&Path| folder.join(".git").symlink_metadata().is_ok();
    cwd.ancestors().find(is_repository).unwrap_or(cwd)
}

/// Returns the places of the user.
pub(super) fn of_user(home: Option<&Path>) -> Vec<Place> {
    let all: Vec<PathBuf> = real_places(home.into_iter()).collect();
    let place = |path: &PathBuf| Place {
        path: path.clone(),
        within: all.clone(),
    };
    all.iter().map(place).collect()
}

/// Returns the places of a project that are not those of the user, the nearest to `cwd` first.
/// Both paths are without links.
pub(super) fn of_project(project: &Path, cwd: &Path, of_user: &[Place]) -> Vec<Place> {
    let folders = cwd.ancestors().take_while(|folder| folder.starts_with(project));
    real_places(folders)
        .filter(|path| of_user.iter().all(|place| place.path != *path))
        .map(|path| Place {
            path,
            within: vec![project.to_owned()],
        })
        .collect()
}

/// Returns the existing places below these folders, without links and each once.
fn real_places<'a>(folders: impl Iterator<Item = &'a Path>) -> impl Iterator<Item = PathBuf> {
    let mut seen = Vec::new();
    folders
        .flat_map(|folder| PLACES.map(|place| folder.join(place)))
        .filter_map(|path| path.canonicalize().ok())
        .filter(move |path| {
            let is_new = !seen.contains(path);
            if is_new {
                seen.push(path.clone());
            }
            is_new
        })
}

/// Finds the folders of skills, and counts the folders that it visits.
#[derive(Debug, Default)]
pub(super) struct Search {
    visited: usize,
    entries: usize,
    pub(super) warnings: Vec<String>,
}

impl Search {
    /// Returns the folders in a place that contain a SKILL.md, without links, in the order of
    /// their names.
    pub(super) fn folders(&mut self, place: &Place) -> Vec<PathBuf> {
        let mut found = Vec::new();
        if place.contains(&place.path) {
            self.search(place, &place.path, 1, &mut found);
        } else {
            self.warnings.push(format!(
                "{} leads out of its project and is ignored",
                shown(&place.path)
            ));
        }
        found
    }

    fn search(&mut self, place: &Place, folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
        for path in self.subfolders(folder) {
            if self.visited == MAX_FOLDERS {
                self.visited += 1;
                self.warnings.push(format!(
                    "more than {MAX_FOLDERS} folders are searched for skills: those after {} are ignored",
                    shown(&path)
                ));
            }
            if self.visited >= MAX_FOLDERS {
                return;
            }
            self.visited += 1;
            let is_skill = path.join(FILE).symlink_metadata().is_ok();
            if !is_skill && (depth == MAX_DEPTH || path.is_symlink()) {
                continue;
            }
            if !is_skill {
                self.search(place, &path, depth + 1, found);
                continue;
            }
            match path.canonicalize() {
                Ok(real) if place.contains(&real) => found.push(real),
                Ok(_) => self.warnings.push(format!(
                    "{} is a link to another place and is ignored",
                    shown(&path)
                )),
                Err(error) => self.warnings.push(format!("{}: {error}", shown(&path))),
            }
        }
    }

    /// Returns the folders in a folder, and links to folders, ordered by name. Hidden ones and
    /// dependencies contain no skills.
    fn subfolders(&mut self, folder: &Path) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if self.entries >= MAX_ENTRIES {
                break;
            }
            self.entries += 1;
            if self.entries == MAX_ENTRIES {
                self.warnings.push(format!(
                    "more than {MAX_ENTRIES} files are searched for skills: those after {} are ignored",
                    shown(&entry.path())
                ));
            }
            let may_be_folder = entry
                .file_type()
                .is_ok_and(|kind| kind.is_dir() || kind.is_symlink());
            if may_be_folder && !is_ignored(&entry.file_name()) && entry.path().is_dir() {
                folders.push(entry.path());
            }
        }
        folders.sort_unstable();
        folders
    }
}

impl Place {
    fn contains(&self, path: &Path) -> bool {
        self.within.iter().any(|folder| path.starts_with(folder))
    }
}

pub(super) fn is_ignored(name: &OsStr) -> bool {
    name == "node_modules" || name.as_encoded_bytes().starts_with(b".")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn skill(folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join(FILE), "").unwrap();
    }

    fn names(search: &mut Search, places: &[Place], base: &Path) -> Vec<String> {
        places
            .iter()
            .flat_map(|place| search.folders(place))
            .map(|path| path.strip_prefix(base).unwrap().display().to_string())
            .collect()
    }

    #[test]
    fn places_are_those_from_the_folder_to_its_repository() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let project = base.join("home/project");
        let cwd = project.join("a/b");
        fs::create_dir_all(&cwd).unwrap();
        fs::create_dir(project.join(".git")).unwrap();
        assert_eq!(project_of(&cwd), project);
        skill(&project.join(".claude/skills/one"));
        skill(&project.join(".agents/skills/two"));
        skill(&project.join("a/.agents/skills/three"));
        skill(&base.join(".agents/skills/outside"));
        let home = base.join("home");
        skill(&home.join(".agents/skills/mine"));
        let mut search = Search::default();
        assert_eq!(
            names(
                &mut search,
                &of_project(&project, &cwd, &of_user(Some(&home))),
                &project
            ),
            [
                "a/.agents/skills/three",
                ".agents/skills/two",
                ".claude/skills/one"
            ]
        );
        assert_eq!(
            names(&mut search, &of_user(Some(&home)), &home),
            [".agents/skills/mine"]
        );
        // The home of the user is no project of its own.
        assert_eq!(of_project(&home, &home, &of_user(Some(&home))), []);
        assert_eq!(search.warnings, Vec::<String>::new());
    }

    #[test]
    fn links_lead_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let project = base.join("project");
        let place = project.join(".agents/skills");
        skill(&base.join("outside/evil"));
        skill(&place.join("good"));
        skill(&project.join("shared/also"));
        symlink(base.join("outside/evil"), place.join("evil")).unwrap();
        symlink(base.join("outside"), place.join("folder")).unwrap();
        symlink("..", place.join("loop")).unwrap();
        symlink("../../shared/also", place.join("inside")).unwrap();
        fs::create_dir_all(project.join(".claude")).unwrap();
        symlink(base.join("outside"), project.join(".claude/skills")).unwrap();
        let mut search = Search::default();
        assert_eq!(
            names(&mut search, &of_project(&project, &project, &[]), &project),
            [".agents/skills/good", "shared/also"]
        );
        assert_eq!(search.warnings.len(), 2, "{:?}", search.warnings);

        // One place of the user may link to the other one.
        let home = base.join("home");
        skill(&home.join(".agents/skills/a"));
        fs::create_dir_all(home.join(".claude/skills")).unwrap();
        symlink("../../.agents/skills/a", home.join(".claude/skills/a")).unwrap();
        let mut search = Search::default();
        assert_eq!(
            names(&mut search, &of_user(Some(&home)), &home),
            [".agents/skills/a", ".agents/skills/a"]
        );
        assert_eq!(search.warnings, Vec::<String>::new());
    }

    #[test]
    fn entries_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().canonicalize().unwrap().join(".agents/skills");
        skill(&place.join("a"));
        let mut search = Search {
            entries: MAX_ENTRIES - 1,
            ..Search::default()
        };
        assert_eq!(names(&mut search, &of_user(Some(dir.path())), &place), ["a"]);
        assert_eq!(names(&mut search, &of_user(Some(dir.path())), &place), [""; 0]);
        assert_eq!(search.warnings.len(), 1, "{:?}", search.warnings);
    }

    #[test]
    fn depth_and_count_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().canonicalize().unwrap().join(".agents/skills");
        for path in [
            "a/b/c/deep",
            "a/b/c/d/deeper",
            "a/skill/nested",
            ".hidden/x",
            "node_modules/x",
        ] {
            skill(&place.join(path));
        }
        fs::write(place.join("a/skill").join(FILE), "").unwrap();
        let mut search = Search::default();
        assert_eq!(
            names(&mut search, &of_user(Some(dir.path())), &place),
            ["a/b/c/deep", "a/skill"]
        );
        for nth in 0..MAX_FOLDERS {
            fs::create_dir(place.join(format!("b{nth:04}"))).unwrap();
        }
        let mut search = Search::default();
        assert_eq!(names(&mut search, &of_user(Some(dir.path())), &place).len(), 2);
        assert_eq!(search.warnings.len(), 1, "{:?}", search.warnings);
        assert_eq!(
            search.folders(&of_user(Some(dir.path()))[0]),
            Vec::<PathBuf>::new()
        );
    }
}
