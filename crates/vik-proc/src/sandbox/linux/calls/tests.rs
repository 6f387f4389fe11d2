use super::*;

/// A call as a filter sees it.
#[derive(Clone, Copy, Debug)]
struct Call {
    number: u32,
    args: [u64; 6],
}

impl Call {
    /// Returns 32 bits of the kernel's `struct seccomp_data`.
    fn load(&self, arch: u32, offset: u32) -> u32 {
        let half = |index: usize, high: bool| (self.args[index] >> if high { 32 } else { 0 }) as u32;
        match offset {
            0 => self.number,
            4 => arch,
            _ => half((offset as usize - 16) / 8, !offset.is_multiple_of(8)),
        }
    }
}

/// Runs a program of the kernel's filters.
fn run(program: &[libc::sock_filter], arch: u32, call: &Call) -> u32 {
    let (mut at, mut value) = (0, 0_u32);
    loop {
        let one = program[at];
        at += 1;
        let jump = |holds: bool| usize::from(if holds { one.jt } else { one.jf });
        match u32::from(one.code) {
            0x20 => value = call.load(arch, one.k),
            0x54 => value &= one.k,
            0x05 => at += one.k as usize,
            0x15 => at += jump(value == one.k),
            0x25 => at += jump(value > one.k),
            0x35 => at += jump(value >= one.k),
            0x06 => return one.k,
            code => panic!("unexpected instruction {code:#x}"),
        }
    }
}

/// Returns the architecture that a program tests for.
fn arch(program: &[libc::sock_filter]) -> u32 {
    program.iter().find(|one| one.code == JUMP_IF_EQUAL).unwrap().k
}

/// Returns two programs of the library alone, one for each error.
fn reference(calls: &Calls, landlock: i64) -> [Vec<libc::sock_filter>; 2] {
    let Refused { denied, absent } = refused(calls, landlock).unwrap();
    let mut absent = compile(absent).unwrap();
    let refusal = |errno: i32| libc::SECCOMP_RET_ERRNO | errno.cast_unsigned();
    for one in absent.iter_mut().filter(|one| one.k == refusal(libc::EPERM)) {
        one.k = refusal(libc::ENOSYS);
    }
    [absent, compile(denied).unwrap()]
}

#[test]
fn program_gives_the_verdicts_of_the_library() {
    let networks = [Network::On, Network::Off];
    let all = networks.into_iter().flat_map(|network| {
        [(false, false), (true, false), (false, true)].map(|(unix_sockets, subreaper)| Calls {
            network: network.clone(),
            unix_sockets,
            subreaper,
        })
    });
    let values = [0, 1, 2, 5, 10, 36, 512, 1024, 4096, 4097, 1 << 32, u64::MAX];
    for (calls, landlock) in all.flat_map(|calls| [(calls.clone(), 1), (calls, 7)]) {
        let rules = refused(&calls, landlock).unwrap().denied;
        let has_conditions = |number: u32| rules.get(&i64::from(number)).is_some_and(|it| !it.is_empty());
        let [absent, denied] = reference(&calls, landlock);
        let program = program(refused(&calls, landlock).unwrap()).unwrap();
        let arch = arch(&program);
        let mut refusals = 0;
        for number in (0..600).chain([0x3fff_ffff, 0x7fff_ffff, u32::MAX]) {
            let values = if has_conditions(number) { &values[..] } else { &[7] };
            for (first, second) in values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b))) {
                for third in [0, 1, 512, 1 << 32] {
                    let call = Call {
                        number,
                        args: [first, second, third, 0, 0, 0],
                    };
                    let expected = match run(&absent, arch, &call) {
                        libc::SECCOMP_RET_ALLOW => run(&denied, arch, &call),
                        refusal => refusal,
                    };
                    refusals += u32::from(expected != libc::SECCOMP_RET_ALLOW);
                    assert_eq!(run(&program, arch, &call), expected, "{call:?}");
                    #[cfg(target_arch = "x86_64")]
                    if number < X32 {
                        let number = number | X32;
                        assert_eq!(run(&program, arch, &Call { number, ..call }), expected);
                    }
                }
            }
        }
        assert!(refusals > 1000, "{refusals}");
        let call = Call {
            number: 0,
            args: [0; 6],
        };
        assert_eq!(run(&program, arch, &call), libc::SECCOMP_RET_ALLOW);
        assert_eq!(run(&program, arch + 1, &call), libc::SECCOMP_RET_KILL_PROCESS);
        assert!(program.len() < 256, "{}", program.len());
    }
}

#[test]
fn conditions_match_every_type_but_the_allowed() {
    for allowed in [
        &[libc::SOCK_STREAM, libc::SOCK_DGRAM][..],
        &[libc::SOCK_STREAM, libc::SOCK_SEQPACKET],
        &[],
    ] {
        let conditions = types_but(allowed);
        for kind in 0..=0xf {
            let is_refused = conditions.iter().any(|(argument, op, value)| match op {
                Op::MaskedEq(mask) => {
                    *argument == 1 && u64::from(value.cast_unsigned()) == u64::try_from(kind).unwrap() & mask
                }
                _ => false,
            });
            assert_eq!(is_refused, !allowed.contains(&kind), "{kind} {allowed:?}");
        }
        assert!(conditions.len() <= 4);
    }
}
