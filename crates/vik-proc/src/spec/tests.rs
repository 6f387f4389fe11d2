use std::os::unix::ffi::OsStringExt;

use proptest::prelude::*;

use super::*;

fn os_text() -> impl Strategy<Value = OsString> {
    prop_oneof![
        ".*".prop_map(OsString::from),
        any::<Vec<u8>>().prop_map(OsString::from_vec)
    ]
}

proptest! {
    /// The shim reads the same spec that the daemon wrote, in one line, whatever bytes it
    /// contains.
    #[test]
    fn spec_round_trips_through_its_line(
        program in os_text(),
        args in prop::collection::vec(os_text(), 0..4),
        env in prop::collection::vec((os_text(), os_text()), 0..4),
        path in os_text(),
        int in 0..1_000_000_u64,
    ) {
        let mut spec = ShimSpec::new(program, path.clone());
        (spec.args, spec.env) = (args, env);
        spec.stdin = if int % 2 == 0 {
            Stdin::File(path.clone().into())
        } else {
            Stdin::Follow(path.clone().into())
        };
        spec.stdout = Output::Append(path.clone().into());
        spec.exit_record = Some(path.clone().into());
        spec.control = Some(path.into());
        spec.orphan_grace = Duration::from_millis(int);
        spec.mark = Some(Mark::new("NAME", "value"));
        spec.graces.int = Duration::from_millis(int);
        spec.lease = (int % 2 == 0).then(BootTime::now);
        spec.sandbox = Some(Sandbox {
            write: vec![spec.cwd.clone()],
            ..Sandbox::default()
        });
        let line = serde_json::to_string(&spec).unwrap();
        prop_assert!(!line.contains('\n'));
        prop_assert_eq!(line.contains(r#","lease":"#), spec.lease.is_some());
        prop_assert_eq!(serde_json::from_str::<ShimSpec>(&line).unwrap(), spec);
    }
}

#[test]
fn causes_have_stable_names() {
    let causes = [
        (Cause::Exited, "exited"),
        (Cause::Stopped, "stopped"),
        (Cause::Killed, "killed"),
        (Cause::LifelineLost, "lifeline_lost"),
        (Cause::LeaseLost, "lease_lost"),
        (Cause::SpawnFailed, "spawn_failed"),
    ];
    for (cause, name) in causes {
        assert_eq!(serde_json::to_string(&cause).unwrap(), format!("{name:?}"));
    }
}

#[test]
fn exit_record_format_is_stable() {
    let record = ExitRecord {
        schema: 1,
        agent: Some(ProcessId {
            pid: 7,
            start_time: 8,
        }),
        boot_id: "boot".to_owned(),
        started_at_ms: 1,
        ended_at_ms: 2,
        code: None,
        signal: Some(9),
        cause: Cause::LifelineLost,
        spawn_error: None,
        leftovers_killed: 3,
        proof: Proof::Unproven {
            survivors: vec![ProcessId {
                pid: 5,
                start_time: 6,
            }],
        },
        peak_rss_kb: Some(4),
        user_cpu_ms: 5,
        sys_cpu_ms: 6,
        overrun: None,
    };
    let json = concat!(
        r#"{"ended":{"schema":1,"agent":{"pid":7,"start_time":8},"boot_id":"boot","started_at_ms":1,"#,
        r#""ended_at_ms":2,"code":null,"signal":9,"cause":"lifeline_lost","spawn_error":null,"#,
        r#""leftovers_killed":3,"proof":{"unproven":{"survivors":[{"pid":5,"start_time":6}]}},"#,
        r#""peak_rss_kb":4,"user_cpu_ms":5,"sys_cpu_ms":6}}"#
    );
    let status = Status::Ended(Box::new(record));
    assert_eq!(serde_json::to_string(&status).unwrap(), json);
    assert_eq!(serde_json::from_str::<Status>(json).unwrap(), status);
}
