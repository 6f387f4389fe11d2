use super::*;
use proptest::prelude::*;

fn now() -> Timestamp {
    "2026-11-22T10:00:00Z".parse().unwrap()
}

fn asked(headers: &[(&str, &str)], text: &str) -> Option<u128> {
    let header = |name: &str| {
        let found = headers.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    requested_wait(&header, text, now()).map(|wait| wait.as_millis())
}

#[test]
fn retry_hint_is_read_in_each_form() {
    assert_eq!(asked(&[("retry-after", "7")], ""), Some(7000));
    assert_eq!(asked(&[("retry-after", "0.5")], ""), Some(500));
    assert_eq!(
        asked(&[("retry-after", "Sun, 22 Nov 2026 10:00:09 GMT")], ""),
        Some(9000)
    );
    assert_eq!(
        asked(&[("retry-after", "Sun, 22 Nov 2026 09:00:00 GMT")], ""),
        Some(0)
    );
    assert_eq!(
        asked(&[("retry-after-ms", "250"), ("retry-after", "1")], ""),
        Some(250)
    );
    assert_eq!(
        asked(&[("x-ratelimit-reset-requests", "6m0s")], ""),
        Some(360_000)
    );
    assert_eq!(asked(&[("x-ratelimit-reset-tokens", "17ms")], ""), Some(17));
    assert_eq!(asked(&[("x-ratelimit-reset", "1795341610")], ""), Some(10_000));
    assert_eq!(asked(&[("x-ratelimit-reset", "1795341610500")], ""), Some(10_500));
    assert_eq!(asked(&[("x-ratelimit-reset", "12")], ""), Some(12_000));
    assert_eq!(
        asked(
            &[("anthropic-ratelimit-tokens-reset", "2026-11-22T10:01:00Z")],
            ""
        ),
        Some(60_000)
    );
    assert_eq!(
        asked(&[], "Rate limit reached. Please try again in 7.66s. Visit"),
        Some(7660)
    );
    assert_eq!(asked(&[], "Try again in 1m30s"), Some(90_000));
    assert_eq!(asked(&[], "please retry after 20 seconds."), Some(20_000));
    assert_eq!(
        asked(&[], r#"{"error":{"details":[{"retryDelay": "34s"}]}}"#),
        Some(34_000)
    );
    assert_eq!(asked(&[], r#"{"retry_after_ms":250}"#), Some(250));
    assert_eq!(asked(&[], r#"{"retry_after": 1.5}"#), Some(1500));
}

#[test]
fn retry_hint_is_none_without_a_valid_form() {
    for bad in ["", "-1", "soon", "NaN", "inf", "1e400"] {
        assert_eq!(asked(&[("retry-after", bad)], ""), None, "{bad}");
        assert_eq!(asked(&[("x-ratelimit-reset-requests", bad)], ""), None, "{bad}");
    }
    assert_eq!(asked(&[], "try again in a while, retry after lunch"), None);
    assert_eq!(asked(&[], "try again in 5 parsecs"), None);
}

#[test]
fn retry_hint_uses_the_exhausted_limit() {
    let headers = [
        ("x-ratelimit-reset-requests", "2s"),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-tokens", "6m0s"),
        ("x-ratelimit-remaining-tokens", "100"),
    ];
    assert_eq!(asked(&headers, ""), Some(2000));
    assert_eq!(asked(&headers, "try again in 3s"), Some(3000));
}

fn failure(fault: Fault, retry_after: Option<Duration>) -> Failure {
    Failure {
        retry_after,
        ..Failure::new(fault, "")
    }
}

fn tries(made: u32, broken: u32) -> Tries {
    Tries {
        made,
        broken,
        left: Duration::from_secs(600),
    }
}

#[test]
fn retry_waits_grow_and_end() {
    let settings = RetrySettings::default();
    let overloaded = failure(Fault::Overloaded, None);
    let waits: Vec<_> = (1..=8)
        .map(|made| decide(&overloaded, tries(made, 0), settings, false, 0))
        .collect();
    let expected: Vec<_> = [500, 1000, 2000, 4000, 8000, 16_000, 20_000]
        .map(|ms| Decision::Wait(Duration::from_millis(ms)))
        .into_iter()
        .chain([Decision::Stop])
        .collect();
    assert_eq!(waits, expected);
    assert_eq!(
        decide(&overloaded, tries(8, 0), settings, true, 0),
        Decision::Fallback
    );
}

#[test]
fn retry_stops_if_the_wait_is_too_long() {
    let settings = RetrySettings::default();
    let hour = failure(Fault::RateLimit, Some(Duration::from_secs(3600)));
    assert_eq!(decide(&hour, tries(1, 0), settings, false, 0), Decision::Stop);
    assert_eq!(decide(&hour, tries(1, 0), settings, true, 0), Decision::Fallback);
    let minute = failure(Fault::RateLimit, Some(Duration::from_secs(60)));
    assert!(
        matches!(decide(&minute, tries(1, 0), settings, false, 9), Decision::Wait(wait) if wait >= Duration::from_secs(60))
    );
    let late = Tries {
        left: Duration::from_secs(59),
        ..tries(1, 0)
    };
    assert_eq!(decide(&minute, late, settings, false, 0), Decision::Stop);
}

#[test]
fn permanent_faults_are_not_retried() {
    let settings = RetrySettings::default();
    for fault in [
        Fault::Auth,
        Fault::Quota,
        Fault::Overflow,
        Fault::Request,
        Fault::Address,
    ] {
        assert_eq!(
            decide(&failure(fault, None), tries(1, 0), settings, true, 0),
            Decision::Stop
        );
    }
    assert_eq!(
        decide(&failure(Fault::Model, None), tries(1, 0), settings, true, 0),
        Decision::Fallback
    );
    assert_eq!(
        decide(&failure(Fault::Model, None), tries(1, 0), settings, false, 0),
        Decision::Stop
    );
    let cut = failure(Fault::Cut, None);
    assert!(matches!(
        decide(&cut, tries(2, 2), settings, false, 0),
        Decision::Wait(_)
    ));
    assert_eq!(decide(&cut, tries(3, 3), settings, false, 0), Decision::Stop);
}

const FAULTS: &[Fault] = &[
    Fault::RateLimit,
    Fault::Quota,
    Fault::Overloaded,
    Fault::Server,
    Fault::Auth,
    Fault::Model,
    Fault::Overflow,
    Fault::Request,
    Fault::Address,
    Fault::Network,
    Fault::NothingListens,
    Fault::Stalled,
    Fault::Cut,
    Fault::Empty,
    Fault::Malformed,
];

proptest! {
    /// The tries always end, never wait longer than the remaining time or than the longest wait and
    /// a little more, and use the fallback only if there is one.
    #[test]
    fn retry_decisions_are_bounded(
        fault in prop::sample::select(FAULTS),
        asked in prop::option::of(0_u64..200_000),
        left in 0_u64..1_000_000,
        max_tries in 0_u32..20,
        max_wait_ms in 0_u64..100_000,
        has_fallback: bool,
        randoms in prop::collection::vec(any::<u64>(), 30),
    ) {
        let settings = RetrySettings { max_tries, max_wait_ms, ..RetrySettings::default() };
        let failure = failure(fault, asked.map(Duration::from_millis));
        let mut waits = 0;
        for (made, random) in (1..).zip(randoms) {
            let tries = Tries { made, broken: made, left: Duration::from_millis(left) };
            match decide(&failure, tries, settings, has_fallback, random) {
                Decision::Wait(wait) => {
                    waits += 1;
                    prop_assert!(wait < tries.left);
                    prop_assert!(wait <= Duration::from_millis(max_wait_ms + 250).max(LONGEST_BACK_OFF));
                    prop_assert!(wait >= failure.retry_after.unwrap_or_default());
                }
                Decision::Fallback => { prop_assert!(has_fallback); break; }
                Decision::Stop => break,
            }
        }
        prop_assert!(waits < max_tries.max(1));
    }

    /// No text of a provider causes a panic.
    #[test]
    fn retry_hint_accepts_any_text(text in "\\PC{0,40}", message in "[a-z0-9\". :_]{0,60}") {
        let header = |_: &str| Some(text.clone());
        let _ = requested_wait(&header, &message, now());
        let _ = requested_wait(&|_| None, &message, now());
    }
}
