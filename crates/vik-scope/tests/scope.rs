//! Tests of matching and of overlaps.
#![allow(clippy::unwrap_used)]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use vik_scope::{BadGlob, Scope};

fn scope(globs: &[&str]) -> Scope {
    Scope::new(globs).unwrap()
}

#[track_caller]
fn takes(globs: &[&str], yes: &[&str], no: &[&str]) {
    let scope = scope(globs);
    for path in yes {
        assert!(scope.matches(path), "{globs:?} takes {path}");
    }
    for path in no {
        assert!(!scope.matches(path), "{globs:?} does not take {path}");
    }
}

#[test]
fn path_is_compared_part_by_part() {
    takes(
        &["src/a"],
        &["src/a", "src/a/b.rs", "./src//a/", "src/./a/x/y"],
        &[
            "src/ab", "src/ab/a", "src", "a", "x/src/a", "SRC/a", "src/A", "src/a.rs",
        ],
    );
    takes(&["src/a/"], &["src/a/b"], &["src/a", "src/ab"]);
    takes(&["src/*.rs"], &["src/a.rs"], &["src/x/a.rs", "src/a.rss", "a.rs"]);
    takes(&["src/?"], &["src/a"], &["src/", "src/ab"]);
    takes(&["{a,b}/[cd]"], &["a/c", "b/d/e"], &["a/e", "c/c"]);
    takes(&["*"], &["a", ".hidden", "a/b"], &[]);
    takes(&["."], &["a", "a/b"], &[]);
    takes(&["a\\*b"], &["a*b"], &["axb"]);
}

#[test]
fn two_stars_match_any_folders() {
    takes(&["**/*.md"], &["a.md", "x/y/a.md"], &["a.mdx"]);
    takes(
        &["a/**/z"],
        &["a/z", "a/b/z", "a/b/c/z", "a/z/q"],
        &["a", "az", "a/zz"],
    );
    // The folder itself does not match: it must not become a link to elsewhere.
    takes(&["src/**"], &["src/a", "src/a/b"], &["src", "srca"]);
    takes(&["**"], &["a", "a/b"], &[]);
    takes(&["**/**/x"], &["x", "a/x"], &["a"]);
}

#[test]
fn last_matching_glob_decides() {
    takes(
        &["src/**", "!src/gen/**", "src/gen/keep.rs"],
        &["src/a", "src/gen/keep.rs"],
        &["src/gen/x"],
    );
    takes(&["!src/gen", "src"], &["src/gen/x"], &["a"]);
    takes(&["!secrets"], &["a", "src/secrets"], &["secrets", "secrets/x"]);
    takes(&["**", "!**/*.lock"], &["a"], &["x/Cargo.lock"]);
}

#[test]
fn path_outside_the_workspace_is_in_no_scope() {
    takes(
        &["**"],
        &["a", "a/...", "a/.gitignore", ".github/x"],
        &[
            "",
            ".",
            "/",
            "/a",
            "../a",
            "a/../b",
            "a/..",
            ".git",
            ".git/config",
            "a/.git/hooks/x",
            ".GIT/x",
        ],
    );
    let odd = Path::new(OsStr::from_bytes(b"src/\xff"));
    assert!(scope(&["src"]).matches(odd) && !scope(&["lib"]).matches(odd));
}

#[test]
fn invalid_glob_is_refused() {
    for glob in [
        "", "!", " ", "/a", "~/a", "a/../b", "..", "a**b", "a/**b", ".git", "a/.git/x", "[a", "{a/b,c}",
        "a\\", "a\0b",
    ] {
        let error = Scope::new([glob]).unwrap_err();
        assert!(matches!(error, BadGlob::Glob { .. }), "{glob:?}: {error}");
    }
    assert!(Scope::new(["x/".repeat(600)]).is_err());
    assert!(Scope::new(["x/".repeat(100)]).is_err());
    assert_eq!(Scope::new(Vec::<String>::new()), Err(BadGlob::Empty));
    assert_eq!(Scope::new(vec!["a"; 65]), Err(BadGlob::TooMany));
    let shown = Scope::new(["/\u{1b}[31m"]).unwrap_err().to_string();
    assert!(!shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn overlaps_of_what_people_write() {
    let overlaps = |a: &[&str], b: &[&str]| {
        let (a, b) = (scope(a), scope(b));
        assert_eq!(a.overlaps(&b), b.overlaps(&a));
        a.overlaps(&b)
    };
    for (a, b) in [
        (&["src"][..], &["src/a/b"][..]),
        (&["**/*.rs"], &["src/**"]),
        (&["src/*.rs"], &["src/m*"]),
        (&["**"], &["x"]),
        (&["src/**", "!src/gen/**", "src/gen/keep"], &["src/gen/**"]),
    ] {
        assert!(overlaps(a, b), "{a:?} {b:?}");
    }
    for (a, b) in [
        (&["src/a"][..], &["src/ab"][..]),
        (&["src/a/**"], &["src/b/**"]),
        (&["docs"], &["src"]),
        (&["src/**", "!src/gen/**"], &["src/gen/x/**"]),
        (&["src/**", "!**/gen"], &["src/gen/x/**"]),
        (&["**", "!docs"], &["docs/**"]),
        (&["src/*.rs"], &["src/*.md"]),
        (&["src/a*"], &["src/b*"]),
    ] {
        assert!(!overlaps(a, b), "{a:?} {b:?}");
    }
}

#[test]
fn and_takes_what_both_scopes_take() {
    let both = scope(&["src/**", "docs"]).and(&scope(&["!src/gen", "src", "other"]));
    assert!(both.matches("src/a") && !both.matches("docs") && !both.matches("other"));
    assert!(!both.is_empty());
    assert!(scope(&["src"]).and(&scope(&["docs"])).is_empty());
    assert!(scope(&["src", "!src"]).is_empty());
    assert!(Scope::nothing().is_empty() && !Scope::nothing().matches("a"));
    assert_eq!(both.and(&both), both, "nothing comes twice");
}

#[test]
fn scope_round_trips_through_json() {
    let both = scope(&["src/**", "!src/gen/"]).and(&scope(&["**/*.rs"]));
    let text = serde_json::to_string(&both).unwrap();
    assert_eq!(text, r#"[["src/**","!src/gen/"],["**/*.rs"]]"#);
    assert_eq!(serde_json::from_str::<Scope>(&text).unwrap(), both);
    let nothing = serde_json::to_string(&Scope::nothing()).unwrap();
    assert_eq!(serde_json::from_str::<Scope>(&nothing).unwrap(), Scope::nothing());
    for bad in ["[]", r#"[["/etc"]]"#, r#"["a"]"#] {
        assert!(serde_json::from_str::<Scope>(bad).is_err(), "{bad}");
    }
}

#[test]
fn roots_hold_all_that_is_taken() {
    let roots = |scope: &Scope| {
        let roots = scope.write_roots();
        roots
            .iter()
            .map(|root| root.to_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        roots(&scope(&["src/a/**", "docs/x.md", "src/a/b"])),
        ["docs/x.md", "src/a"]
    );
    assert_eq!(roots(&scope(&["**/*.rs"])), [""]);
    assert_eq!(roots(&scope(&["!secrets"])), [""]);
    let both = scope(&["src/**", "docs"]).and(&scope(&["src/a", "x"]));
    assert_eq!(roots(&both), ["src/a"]);
}

fn names() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "ab", "a.b"]).prop_map(str::to_owned)
}

fn globs() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => names(),
        2 => prop::sample::select(vec!["*", "**", "a*", "*b", "?", "[ab]", "{a,ab}", "[!a]", "a?b", "\\a*", "*\\b", "*.b"])
            .prop_map(str::to_owned),
    ];
    let parts = prop::collection::vec(part, 1..4);
    (any::<bool>(), any::<bool>(), parts).prop_map(|(excludes, folder, parts)| {
        let (mark, end) = (if excludes { "!" } else { "" }, if folder { "/" } else { "" });
        format!("{mark}{}{end}", parts.join("/"))
    })
}

fn scopes() -> impl Strategy<Value = Scope> {
    let list = prop::collection::vec(globs(), 1..5).prop_map(|globs| Scope::new(globs).unwrap());
    prop::collection::vec(list, 1..3)
        .prop_map(|lists| lists.into_iter().reduce(|all, next| all.and(&next)).unwrap())
}

/// Returns all paths of up to four parts over a few names.
fn paths() -> Vec<PathBuf> {
    let names = ["a", "b", "ab", "a.b"];
    let mut all = vec![PathBuf::new()];
    let mut last = all.clone();
    for _ in 0..4 {
        last = last
            .iter()
            .flat_map(|path| names.iter().map(move |name| path.join(name)))
            .collect();
        all.extend(last.iter().cloned());
    }
    all.retain(|path| path != Path::new(""));
    all
}

proptest! {
    #[test]
    fn overlaps_misses_no_common_path(a in scopes(), b in scopes()) {
        let both: Vec<_> = paths().into_iter().filter(|path| a.matches(path) && b.matches(path)).collect();
        if let Some(path) = both.first() {
            prop_assert!(a.overlaps(&b), "{a:?} and {b:?} both take {path:?}");
            prop_assert!(b.overlaps(&a));
            prop_assert!(!a.and(&b).is_empty());
        }
    }

    #[test]
    fn and_is_the_intersection_and_its_roots_cover_it(a in scopes(), b in scopes()) {
        let both = a.and(&b);
        let roots = both.write_roots();
        for path in paths() {
            prop_assert_eq!(both.matches(&path), a.matches(&path) && b.matches(&path));
            if both.matches(&path) {
                prop_assert!(roots.iter().any(|root| path.starts_with(root)), "{path:?} {roots:?}");
            }
        }
    }

    #[test]
    fn scope_never_panics_on_any_glob(globs in prop::collection::vec(".{0,12}", 0..4), path in ".{0,20}") {
        if let Ok(scope) = Scope::new(&globs) {
            let _ = scope.matches(&path);
            let outside = [format!("../{path}"), format!("/{path}")];
            prop_assert!(!outside.iter().any(|path| scope.matches(path)));
            let _ = (scope.overlaps(&scope), scope.write_roots(), scope.is_empty());
        }
    }
}
