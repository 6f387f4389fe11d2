//! Measures how much a sandbox adds to the start of an agent: `cargo bench -p vik-proc --bench
//! start`. It alternates between `true` without a sandbox, with Landlock, and in namespaces of
//! bubblewrap, and measures from the start of the shim to its end.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench may stop at once, and prints what it measured"
)]

use std::time::{Duration, Instant};

use vik_proc::{Backend, Calls, Reads, SHIM_VERB, Sandbox, ShimSpec, StdoutMode, Supervisor};

const ROUNDS: usize = 200;

#[tokio::main]
async fn main() {
    let shim = env!("CARGO_BIN_EXE_vik-shim-test");
    let supervisor = Supervisor::new(shim, [SHIM_VERB.into()]).unwrap();
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir_all(home.join("keys")).unwrap();
    std::fs::create_dir_all(home.join("work")).unwrap();
    std::fs::write(home.join("token"), "").unwrap();
    let sandbox = |backend| Sandbox {
        backend,
        write: vec![home.join("work")],
        read: Reads::AllBut {
            hidden: vec![home.join("keys"), home.join("token"), home.join("later")],
            shown: Vec::new(),
        },
        calls: Some(Calls::default()),
        ..Sandbox::default()
    };
    let ways = [
        ("none", None),
        ("landlock", Some(sandbox(Backend::Landlock))),
        ("bubblewrap", Some(sandbox(Backend::Bubblewrap))),
    ];
    let mut seen: [(Vec<Duration>, Vec<Duration>); 3] = Default::default();
    for _ in 0..ROUNDS {
        for ((_, sandbox), (runs, ends)) in ways.iter().zip(&mut seen) {
            let mut spec = ShimSpec::new("true", home.join("work"));
            spec.env = vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())];
            spec.sandbox.clone_from(sandbox);
            let started = Instant::now();
            let supervised = supervisor.spawn(&spec, None, StdoutMode::Null).await.unwrap();
            runs.push(started.elapsed());
            let record = supervised.wait().await.unwrap();
            ends.push(started.elapsed());
            assert_eq!(record.code, Some(0), "{record:?}");
        }
    }
    let quantile = |times: &mut Vec<Duration>, of: usize| {
        times.sort_unstable();
        times[(times.len() - 1) * of / 100].as_secs_f64() * 1e3
    };
    println!(
        "{ROUNDS} rounds: from the start of the shim until the agent runs, and until all has ended, in ms"
    );
    for ((name, _), (runs, ends)) in ways.iter().zip(&mut seen) {
        println!(
            "{name:<10} runs: p50 {:.2}, p99 {:.2}; ended: p50 {:.2}, p99 {:.2}",
            quantile(runs, 50),
            quantile(runs, 99),
            quantile(ends, 50),
            quantile(ends, 99)
        );
    }
}
