use std::time::{Duration, UNIX_EPOCH};

#[test]
fn centuries() {
    for (seconds, text) in [
        (951868800, "Wed, 01 Mar 2000 00:00:00 GMT"),
        (4107542400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        (13574563200, "Tue, 29 Feb 2400 00:00:00 GMT"),
    ] {
        let date = UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(httpdate::fmt_http_date(date), text);
        assert_eq!(httpdate::parse_http_date(text).unwrap(), date);
    }
}
