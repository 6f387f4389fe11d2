use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

/// A project in a home.
struct Folders {
    _dir: tempfile::TempDir,
    home: PathBuf,
    project: PathBuf,
}

impl Folders {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        let project = home.join("project");
        fs::create_dir_all(project.join(".git")).unwrap();
        Self {
            _dir: dir,
            home,
            project,
        }
    }

    fn put(&self, folder: &str, text: &str) -> PathBuf {
        let folder = self.home.join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("SKILL.md"), text).unwrap();
        folder
    }

    fn load(&self, folders: &[PathBuf], trusted: &[&Path]) -> Result<Skills, SkillError> {
        let trusted: Vec<PathBuf> = trusted.iter().map(|path| (*path).to_owned()).collect();
        Skills::load(&SkillSources {
            folders,
            search: true,
            cwd: &self.project,
            home: Some(&self.home),
            trusted: &trusted,
        })
    }
}

fn text(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\nBody of {description}\n")
}

fn listed(skills: &Skills) -> Vec<String> {
    let line = |skill: &Skill| format!("{} {} {}", skill.origin.as_str(), skill.name, skill.description);
    skills.iter().map(line).collect()
}

#[test]
fn untrusted_project_does_not_use_up_the_search_of_the_user() {
    let folders = Folders::new();
    folders.put(".agents/skills/mine", &text("mine", "of the user"));
    for nth in 0..=places::MAX_FOLDERS {
        fs::create_dir_all(folders.project.join(format!(".agents/skills/{nth}"))).unwrap();
    }
    let skills = folders.load(&[], &[]).unwrap();
    assert_eq!(listed(&skills), ["user mine of the user"]);
    assert!(
        skills.warnings[0].contains("folders are searched"),
        "{:?}",
        skills.warnings
    );
}

#[test]
fn two_chosen_skills_of_one_name_are_an_error() {
    let folders = Folders::new();
    let chosen = ["x/release", "y/release", "z/other"]
        .map(|folder| folders.put(folder, &text("release", "in its folder")));
    for second in &chosen[1..] {
        let error = folders
            .load(&[chosen[0].clone(), second.clone()], &[])
            .unwrap_err();
        let error = error.to_string();
        for folder in [&chosen[0], second] {
            assert!(error.contains(&folder.display().to_string()), "{error}");
        }
    }
    let twice = [chosen[0].clone(), chosen[0].clone()];
    assert_eq!(listed(&folders.load(&twice, &[]).unwrap()).len(), 1);
}

#[test]
fn workflow_wins_over_project_over_user() {
    let folders = Folders::new();
    folders.put(".agents/skills/a", &text("a", "of the user"));
    folders.put(".agents/skills/b", &text("b", "of the user"));
    folders.put(".claude/skills/b", &text("b", "of the user"));
    folders.put(".claude/skills/c", &text("c", "of the user"));
    folders.put("project/.agents/skills/a", &text("a", "of the project"));
    folders.put("project/.agents/skills/d", &text("d", "of the project"));
    let chosen = [folders.put("else/d", &text("d", "of the workflow"))];
    let skills = folders.load(&chosen, &[&folders.project]).unwrap();
    assert_eq!(
        listed(&skills),
        [
            "workflow d of the workflow",
            "project a of the project",
            "user b of the user",
            "user c of the user"
        ]
    );
    assert_eq!(skills.warnings, Vec::<String>::new());
    // The copy of `b` is no other skill.
    assert_eq!(skills.hidden.len(), 2, "{:?}", skills.hidden);
    let body = skills.find("a").unwrap().body().unwrap();
    assert_eq!(
        (body.text.as_str(), body.first_line),
        ("Body of of the project", 5)
    );
    let a = skills.find("a").unwrap();
    assert_eq!(a.sha256, sha256(text("a", "of the project").as_bytes()));
    assert_eq!(a.sha256.len(), 64);
}

#[test]
fn skills_of_a_project_require_trust() {
    let folders = Folders::new();
    folders.put("project/.agents/skills/a", &text("a", "of the project"));
    folders.put("project/.claude/skills/b", "\u{1b}]0;no skill");
    folders.put(".agents/skills/c", &text("c", "of the user"));
    let elsewhere = folders.home.join("proj");
    for trusted in [
        &[][..],
        &[Path::new("project")],
        &[Path::new("/nowhere"), &elsewhere],
    ] {
        let skills = folders.load(&[], trusted).unwrap();
        assert_eq!(listed(&skills), ["user c of the user"]);
        let hint = skills.untrusted_hint().unwrap();
        assert!(hint.starts_with("2 skills of the project left out"), "{hint}");
        let relative = trusted.iter().any(|path| path.is_relative());
        assert_eq!(
            skills.warnings.len(),
            usize::from(relative),
            "{:?}",
            skills.warnings
        );
    }
    let project = folders.project.clone();
    for trusted in [&project, Path::new("~/project"), &folders.home, Path::new("~")] {
        let skills = folders.load(&[], &[trusted]).unwrap();
        assert_eq!(
            listed(&skills),
            ["project a of the project", "user c of the user"]
        );
        assert_eq!(skills.untrusted, None);
        assert_eq!(skills.warnings.len(), 1, "{:?}", skills.warnings);
    }
    // A skill that the workflow names needs no trust in the project.
    let chosen = [project.join(".agents/skills/a")];
    let skills = folders.load(&chosen, &[]).unwrap();
    assert_eq!(
        listed(&skills),
        ["workflow a of the project", "user c of the user"]
    );
    assert_eq!(skills.untrusted, Some((project, 1)));
}

#[test]
fn unusable_skill_is_skipped_unless_it_was_named() {
    let folders = Folders::new();
    let bad = folders.put(".agents/skills/bad", "no front matter");
    let large = folders.put(".agents/skills/large", &" ".repeat(256 * 1024 + 1));
    let link = folders.home.join(".agents/skills/link");
    fs::create_dir_all(&link).unwrap();
    symlink("/etc/passwd", link.join("SKILL.md")).unwrap();
    let pipe = folders.home.join(".agents/skills/pipe");
    fs::create_dir_all(&pipe).unwrap();
    nix::unistd::mkfifo(&pipe.join("SKILL.md"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let skills = folders.load(&[], &[]).unwrap();
    assert!(skills.is_empty());
    assert_eq!(skills.warnings.len(), 4, "{:?}", skills.warnings);
    for folder in [
        &bad,
        &large,
        &link,
        &pipe,
        &folders.home,
        &folders.home.join("missing"),
    ] {
        let error = folders
            .load(std::slice::from_ref(folder), &[])
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(&format!("--skill {}: ", folder.display())),
            "{error}"
        );
    }
    for nth in 0..300 {
        folders.put(
            &format!(".agents/skills/s{nth:03}"),
            &text(&format!("s{nth:03}"), "x"),
        );
    }
    let skills = folders.load(&[], &[]).unwrap();
    assert_eq!(
        (skills.iter().len(), skills.warnings.len()),
        (MAX_SKILLS, MAX_WARNINGS + 1)
    );
}

#[test]
fn nothing_is_searched_without_need() {
    let folders = Folders::new();
    folders.put("project/.agents/skills/a", &text("a", "x"));
    folders.put(".agents/skills/b", &text("b", "x"));
    let skills = Skills::load(&SkillSources {
        folders: &[],
        search: false,
        cwd: &folders.project,
        home: Some(&folders.home),
        trusted: std::slice::from_ref(&folders.project),
    });
    let skills = skills.unwrap();
    assert!(skills.is_empty() && skills.warnings.is_empty() && skills.untrusted.is_none());
    assert_eq!(skills.catalogue(None, |_| true), Catalogue::default());
}

/// Text that is close to a SKILL.md.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("---\n".to_owned()),
        Just("name: ".to_owned()),
        Just("description: ".to_owned()),
        Just("allowed-tools: ".to_owned()),
        Just("metadata:\n".to_owned()),
        Just("<<: *a\n".to_owned()),
        Just("&a [*a, *a]\n".to_owned()),
        Just("\u{feff}\u{202e}\u{1b}[2J\0".to_owned()),
        Just("x".repeat(3000)),
        Just("[{".repeat(100)),
        "[ \\t\\r\\n:'\"|>{}\\[\\],&*!%@`#a-z-]{0,20}",
        "\\PC{0,10}",
        any::<String>(),
    ];
    (any::<bool>(), prop::collection::vec(piece, 0..20)).prop_map(|(starts, pieces)| {
        let start = if starts { "---\ndescription: d\n" } else { "" };
        start.to_owned() + &pieces.concat()
    })
}

proptest! {
    #[test]
    fn hostile_text_is_read_within_bounds(text in hostile()) {
        let parts = skill::split(&text);
        prop_assert!(parts.front.len() + parts.body.len() <= text.len());
        if let Ok((manifest, warnings)) = Manifest::read(parts.front, "folder") {
            let texts = [Some(&manifest.description), manifest.license.as_ref(), manifest.compatibility.as_ref(),
                         manifest.allowed_tools.as_ref(), Some(&manifest.name)];
            for text in texts.into_iter().flatten().chain(&warnings) {
                prop_assert!(!text.is_empty() && text.chars().count() <= 1024);
                prop_assert!(!text.chars().any(vik_yaml::text::is_hostile), "{text:?}");
            }
            prop_assert!(manifest.name.chars().count() <= 64);
            let skill = Skill { name: manifest.name, description: manifest.description, ..Skill::default() };
            let skills = Skills { found: vec![skill; 20], ..Skills::default() };
            for window in [None, Some(0), Some(4096), Some(u64::MAX)] {
                let catalogue = skills.catalogue(window, |_| true);
                let room = window.map_or(8000, |tokens| 8000.min(tokens.saturating_mul(8) / 100));
                prop_assert!(catalogue.text.chars().count() as u64 <= room);
                prop_assert_eq!(catalogue.text.matches("</skills>").count(), usize::from(!catalogue.text.is_empty()));
            }
        }
    }

    #[test]
    fn hostile_file_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let folders = Folders::new();
        let folder = folders.put(".agents/skills/a", "");
        fs::write(folder.join("SKILL.md"), [b"---\ndescription: d\n---\n".as_slice(), &bytes].concat()).unwrap();
        let skills = folders.load(&[], &[]).unwrap();
        for skill in skills.iter() {
            prop_assert!(skill.body().unwrap().text.len() <= 3 * bytes.len());
        }
    }
}
