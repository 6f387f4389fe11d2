//! `http`.

use vik_core::workflow::Http;

use super::codes::found;
use super::*;

fn http(section: &str) -> Http {
    let loaded = load(&format!("{MINIMAL}{section}\n"));
    assert_eq!(loaded.diagnostics, [], "{}", loaded.render("workflow.yml", false));
    loaded.workflow.unwrap().http
}

#[test]
fn options_replace_keys_and_nothing_is_served_without_a_port() {
    let absent = http("");
    assert_eq!(absent.address(None, None), None);
    assert_eq!(absent.address(None, "::1".parse().ok()), None);
    assert_eq!(absent.address(Some(7), None), "127.0.0.1:7".parse().ok());

    let set = http("http: {port: 8787, bind: \"::1\", names: [Vik.Example.com, vik]}");
    assert_eq!(set.names, ["vik.example.com", "vik"]);
    assert_eq!(set.address(None, None), "[::1]:8787".parse().ok());
    assert_eq!(set.address(Some(0), None), "[::1]:0".parse().ok());
    let bind = "127.0.0.2".parse().ok();
    assert_eq!(set.address(None, bind), "127.0.0.2:8787".parse().ok());
}

#[test]
fn mistakes_have_their_places() {
    let line = MINIMAL.lines().count() as u32 + 1;
    for (section, code, column) in [
        ("http: {port: 65536}", "out_of_range", 14),
        ("http: {port: -1}", "out_of_range", 14),
        ("http: {bind: vik.example.com}", "bad_address", 14),
        ("http: {bind: \"127.0.0.1:80\"}", "bad_address", 14),
        ("http: {names: [\"https://x\"]}", "bad_host", 16),
        ("http: {names: [\"x:80\"]}", "bad_host", 16),
        ("http: {names: [\"*.example.com\"]}", "bad_host", 16),
        ("http: {names: vik}", "wrong_type", 15),
        ("http: {name: [vik]}", "unknown_key", 8),
        ("http: {port: 1, bind: 0.0.0.0}", "open_listener", 23),
    ] {
        assert_eq!(
            found(&format!("{MINIMAL}{section}\n")),
            [(code, line, column)],
            "{section}"
        );
    }
}
