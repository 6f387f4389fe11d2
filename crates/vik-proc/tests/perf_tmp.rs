#![allow(clippy::unwrap_used)]
use std::time::Instant;
use vik_proc::*;
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn perf() {
    let program = std::env::var("SHIM").unwrap_or(env!("CARGO_BIN_EXE_vik-shim-test").into());
    let s = Supervisor::new(program, ["__shim".into()]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mk = |i: usize, p: &str, a: &[&str]| { let mut x = ShimSpec::new(p, "/"); x.args = a.iter().map(Into::into).collect(); x.stdout = Output::Append(dir.path().join(format!("o{i}"))); x.exit_record = Some(dir.path().join(format!("e{i}"))); x.census = Some(dir.path().join(format!("c{i}"))); x.mark=Some(Mark::new("A","b")); x };
    let mut t = vec![]; let mut w = vec![];
    for i in 0..100 { let b = Instant::now(); let x = s.spawn(&mk(i, "true", &[]), None, StdoutMode::Null).await.unwrap(); t.push(b.elapsed()); x.wait().await.unwrap(); w.push(b.elapsed()); }
    t.sort(); w.sort();
    println!("one by one: to exec p50 {:?} p99 {:?}; to end p50 {:?}", t[50], t[98], w[50]);
    let b = Instant::now();
    let mut set = tokio::task::JoinSet::new();
    for i in 0..500 { let s = s.clone(); let x = mk(i, "sleep", &["1000"]); set.spawn(async move { s.spawn(&x, None, StdoutMode::Null).await.unwrap() }); }
    let all = set.join_all().await;
    println!("500 started in {:?}", b.elapsed());
    let rss = std::fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", rss.lines().find(|l| l.starts_with("VmRSS")).unwrap());
    let shim = all[0].shim().pid;
    println!("shim {}", std::fs::read_to_string(format!("/proc/{shim}/smaps_rollup")).unwrap().lines().filter(|l| l.starts_with("Rss")|l.starts_with("Pss:")|l.starts_with("Private_Dirty")).collect::<Vec<_>>().join(" "));
    let b = Instant::now();
    for x in &all { x.stop(); }
    for x in &all { x.wait().await.unwrap(); }
    println!("500 stopped in {:?}", b.elapsed());
}
