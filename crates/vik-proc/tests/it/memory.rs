//! Memory that belongs to no process counts like resident memory.

use vik_proc::{Backend, Overrun, Sandbox};

use crate::support::*;

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 100 * MIB;

/// Held by the test that runs: a new file in `/dev/shm` that no process has open counts for every
/// tree of the same user. Where each test has a process of its own, nextest runs one at a time.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A file that is removed at the end of a test.
struct Removed(String);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn limited(scene: &Scene, backend: Backend) -> Sandbox {
    let mut sandbox = scene.sandbox();
    sandbox.backend = backend;
    sandbox.write.push("/dev/shm".into());
    sandbox.limits.memory = Some(LIMIT);
    sandbox
}

fn backends(test: &str) -> Vec<Backend> {
    let mut backends = vec![Backend::Landlock];
    backends.extend(bubblewrap(test).then_some(Backend::Bubblewrap));
    backends
}

#[tokio::test]
async fn memory_that_belongs_to_no_process_counts() {
    let _turn = ONE_AT_A_TIME.lock().await;
    for backend in backends("memory::memory_that_belongs_to_no_process_counts") {
        let scene = Scene::new();
        let named = Removed(format!("/dev/shm/{}", scene.mark.value));
        for how in ["memfd", "mapped", "deleted", &format!("named:{}", named.0)] {
            // The folders that a sandbox has for itself in memory hold no more than the limit.
            let mut spec = scene.spec(&format!("memory {how} 80 memory memfd 80 hang"));
            spec.sandbox = Some(limited(&scene, backend));
            let record = scene.end(&scene.start(&spec).await).await;
            let Some(Overrun::Memory { used, limit: LIMIT }) = record.overrun else {
                panic!("{backend:?} {how}: {record:?}");
            };
            assert!((LIMIT..240 * MIB).contains(&used), "{backend:?} {how}: {used}");
        }
    }
}

#[tokio::test]
async fn memory_that_is_mapped_and_open_counts_once() {
    let _turn = ONE_AT_A_TIME.lock().await;
    for backend in backends("memory::memory_that_is_mapped_and_open_counts_once") {
        let scene = Scene::new();
        let mut spec = scene.spec("memory both 60 ready @up await @go exit 0");
        spec.sandbox = Some(limited(&scene, backend));
        let supervised = scene.start(&spec).await;
        until("it has its memory", || scene.path("up").exists()).await;
        // The wait is long enough for several checks.
        tokio::time::sleep(std::time::Duration::from_millis(800)).await;
        write(&scene.path("go"), b"");
        let record = scene.end(&supervised).await;
        assert_eq!(
            (record.code, record.overrun),
            (Some(0), None),
            "{backend:?}: {record:?}"
        );
    }
}
