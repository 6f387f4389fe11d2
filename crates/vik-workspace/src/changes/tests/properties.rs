//! Any sequence of changes, and any bytes.

use super::*;

proptest! {
    #[test]
    fn arbitrary_git_index_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), version in 0u8..6) {
        let mut index = b"DIRC\0\0\0".to_vec();
        index.extend([version, 0, 0, 0, 2]);
        index.extend(bytes);
        let _ = index_paths(&index, 20);
        let _ = index_paths(&index, 32);
    }
}

/// An action of an agent.
#[derive(Clone, Debug)]
enum Deed {
    Write(usize, Vec<u8>),
    Remove(usize),
    Move(usize, usize),
    Link(usize),
    Folder(usize),
    Mode(usize, u32),
}

const NAMES: [&str; 6] = ["a", "b", "c/a", "c/d/e", "f", "f/g"];

impl Deed {
    fn any() -> impl Strategy<Value = Self> {
        let name = 0..NAMES.len();
        let text = proptest::collection::vec(
            prop_oneof![Just(b'\n'), Just(b'x'), Just(b'y'), Just(b'\r'), Just(0u8)],
            0..12,
        );
        prop_oneof![
            (name.clone(), text).prop_map(|(name, text)| Self::Write(name, text)),
            name.clone().prop_map(Self::Remove),
            (name.clone(), name.clone()).prop_map(|(from, to)| Self::Move(from, to)),
            name.clone().prop_map(Self::Link),
            name.clone().prop_map(Self::Folder),
            (name, prop_oneof![Just(0o600u32), Just(0o755)]).prop_map(|(name, mode)| Self::Mode(name, mode)),
        ]
    }

    /// Performs the action where it is possible.
    fn act(&self, scene: &Scene) {
        let at = |name: usize| scene.dir().join(NAMES[name]);
        let clear = |name: usize| {
            let path = at(name);
            let _ = std::fs::remove_file(&path);
            let _ = std::fs::remove_dir_all(&path);
            let _ = std::fs::create_dir_all(path.parent().unwrap());
        };
        match self {
            Self::Write(name, text) => {
                clear(*name);
                let _ = std::fs::write(at(*name), text);
            }
            Self::Remove(name) => clear(*name),
            Self::Move(from, to) => {
                let _ = std::fs::rename(at(*from), at(*to));
            }
            Self::Link(name) => {
                clear(*name);
                let _ = symlink("a", at(*name));
            }
            Self::Folder(name) => {
                clear(*name);
                let _ = std::fs::create_dir_all(at(*name));
            }
            Self::Mode(name, mode) => {
                if at(*name).symlink_metadata().is_ok_and(|meta| meta.is_file()) {
                    let _ = std::fs::set_permissions(at(*name), std::fs::Permissions::from_mode(*mode));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the actions are, the changes lead from the old state to the new one, and restoring
    /// each path leads back to the old state.
    #[test]
    fn changes_cover_the_difference_and_restore_undoes_it(
        before in proptest::collection::vec(Deed::any(), 0..8),
        during in proptest::collection::vec(Deed::any(), 0..8),
        own_files in prop_oneof![Just(0usize), Just(1), Just(256)],
    ) {
        let scene = Scene::new();
        let bounds = Bounds { own_files, ..Bounds::default() };
        before.iter().for_each(|deed| deed.act(&scene));
        let base = scene.base_within(None, bounds);
        let separate = Store::new(&scene.folder.path().join("separate"));
        let folder = std::fs::File::open(scene.dir()).unwrap();
        let base_of_files = Base::take(&separate, &folder, &scene.dir(), None, Bounds::default()).unwrap();
        prop_assert_eq!(&base.snapshot.files, &base_of_files.snapshot.files);
        during.iter().for_each(|deed| deed.act(&scene));
        let changes = scene.changes_within(&base, bounds);
        let (same, _) = base_of_files.changes(&separate, &folder, &scene.dir(), Bounds::default()).unwrap();
        prop_assert_eq!(&changes, &same, "a pack instead of files changes nothing");
        let after = scene.base();
        let sides = |snapshot: &Snapshot| -> BTreeMap<RelPath, Side> {
            let mode = |side: &Side| if side.link { 0 } else { side.mode };
            let files = snapshot.files.iter();
            files.map(|(path, found)| (path.clone(), Side { mode: mode(&found.side), ..found.side.clone() })).collect()
        };
        let mut made = sides(&base.snapshot);
        for change in &changes.files {
            let old_path = if let ChangeKind::Renamed { from } = &change.kind { from } else { &change.path };
            made.remove(old_path);
        }
        for change in &changes.files {
            if let Some(new) = &change.new {
                let mode = if new.link { 0 } else { new.mode };
                made.insert(change.path.clone(), Side { mode, ..new.clone() });
            }
            if let (Some(hunks), Some(new)) = (&change.hunks, &change.new) {
                let content = scene.store.get(new.hash.unwrap()).unwrap();
                let count = lines(&content).len();
                prop_assert!(hunks.iter().all(|hunk| hunk.new.indices().end <= count));
            }
        }
        prop_assert_eq!(made, sides(&after.snapshot));
        prop_assert_eq!(changes.files.is_empty(), changes.tree == changes.base_tree);
        // Added paths are removed first, so that nothing blocks the restored ones.
        let paths: BTreeSet<&RelPath> = changes.files.iter().flat_map(FileChange::paths).collect();
        let (back, removed): (Vec<&RelPath>, Vec<_>) =
            paths.into_iter().partition(|path| base.snapshot.files.contains_key(*path));
        for path in removed.into_iter().chain(back) {
            scene.restore(&base, path).unwrap();
        }
        prop_assert_eq!(sides(&scene.base().snapshot), sides(&base.snapshot));
    }
}
