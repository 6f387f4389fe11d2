//! Browsers sign in, stay signed in, and are signed out; a cookie never signs in.

use std::time::Instant;

use serde_json::json;
use vik_testkit::{EventStream, HttpClient};

use super::{Served, done, until};
use crate::support::{LONG, World, assert_contains};

/// Returns the code of the link that `vik status` prints.
fn code(served: &Served) -> String {
    let printed = served.world.vik(&["status", "--link"]).expect(0).out;
    let start = format!("http://{}/login#code=", served.address);
    let link = printed
        .split_whitespace()
        .find_map(|secret| secret.strip_prefix(&start));
    link.unwrap_or_else(|| panic!("{printed}")).to_owned()
}

/// Signs a browser in, and returns its token.
fn sign_in(served: &Served, user_agent: &str) -> String {
    let client = served.stranger().with_header("User-Agent", user_agent);
    let reply = client.post("/api/v1/sign-in", &json!({"code": code(served)}));
    reply.expect_status(200).json()["token"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn browser(served: &Served, token: &str) -> HttpClient {
    served
        .stranger()
        .with_header("Authorization", &format!("Bearer {token}"))
}

/// Reads all events up to the end of the stream. The daemon polls its issues all the time: a stream
/// that stays open always has more.
fn ends(events: &mut EventStream) {
    let deadline = Instant::now() + LONG;
    while events.next().is_some() {
        assert!(Instant::now() < deadline, "the stream continues");
    }
}

#[test]
fn sign_in_link_works_once_and_yields_a_steering_token() {
    let served = done();
    let refused = served
        .stranger()
        .post("/api/v1/sign-in", &json!({"code": "guess"}));
    assert_eq!(refused.expect_status(401).json()["code"], "sign_in");
    let code = code(&served);
    // A preview that only loads the link does not use up the code, because the request does not
    // contain it.
    let _ = served.stranger().get("/login").expect_status(200);
    let reply = served
        .stranger()
        .post("/api/v1/sign-in", &json!({"code": code}))
        .expect_status(200);
    assert_eq!(reply.header("set-cookie"), None);
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let token = reply.json()["token"].as_str().unwrap().to_owned();
    let again = served.stranger().post("/api/v1/sign-in", &json!({"code": code}));
    let _ = again.expect_status(401);
    let browser = browser(&served, &token);
    let _ = browser.get("/api/v1/state").expect_status(200);
    let _ = browser.post("/api/v1/pause", &json!({})).expect_status(200);
    let decided = &served.get("/decisions?limit=1")["decisions"][0];
    assert_eq!(decided["detail"], "paused by a person (dashboard, 127.0.0.1)");
    served.end();
}

/// An agent's dev server gains nothing from the cookies that it receives from a browser or invents.
#[test]
fn cookie_never_authorises_a_request() {
    let served = done();
    let token = sign_in(&served, "Firefox");
    let port = served.address.rsplit(':').next().unwrap().to_owned();
    let document = served.get("/openapi.json");
    let mut requests_sent = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            for value in [&token, &served.token] {
                for origin in [None, Some(format!("http://{}", served.address))] {
                    let cookie =
                        format!("vik_{port}={value}; vik={value}; vik.sign-in={value}; token={value}");
                    let mut client = served.stranger().with_header("Cookie", &cookie);
                    if let Some(origin) = origin {
                        client = client
                            .with_header("Origin", &origin)
                            .with_header("Sec-Fetch-Site", "same-origin");
                    }
                    let client = client.with_header("Content-Type", "application/json");
                    let path = path.replace("{id}", "1");
                    let body = (method == "post").then_some(r#"{"code": "x"}"#);
                    let _ = client
                        .request(&method.to_uppercase(), &path, body)
                        .expect_status(401);
                    requests_sent += 1;
                }
            }
        }
    }
    assert!(requests_sent > 80, "{requests_sent}");
    // The pages are files of the program: they contain no data, and delete the old cookie.
    for path in ["/", "/issues/1", "/assets/app.js"] {
        let page = served
            .stranger()
            .with_header("Cookie", &format!("a=b; vik_{port}=1.2"))
            .get(path)
            .expect_status(200);
        assert!(
            !page.body.contains(&served.token) && !page.body.contains("todo"),
            "{page:?}"
        );
        let cookie = page.header("set-cookie").unwrap_or_else(|| panic!("{page:?}"));
        assert_contains(cookie, "Max-Age=0");
        assert!(cookie.starts_with(&format!("vik_{port}=;")), "{cookie}");
        assert_eq!(
            served
                .stranger()
                .with_header("Cookie", "vik_1=x")
                .get(path)
                .header("set-cookie"),
            None
        );
    }
    assert_eq!(served.get("/state")["paused"], false);
    served.end();
}

#[test]
fn revoked_sign_in_loses_its_access_and_its_stream() {
    let served = done();
    let tokens = ["Firefox\t\u{9b}31m one", "Chromium two"].map(|name| sign_in(&served, name));
    let [first, second] = tokens.each_ref().map(|token| browser(&served, token));
    let listed = first.get("/api/v1/sign-ins").expect_status(200).json();
    let list = listed["sign_ins"].as_array().unwrap();
    assert_eq!(list.len(), 2);
    assert_eq!(list.iter().filter(|one| one["current"] == true).count(), 1);
    let own = list.iter().find(|one| one["current"] == true).unwrap();
    assert!(
        own["user_agent"].as_str().unwrap().starts_with("Firefox"),
        "{own}"
    );
    assert_eq!(own["address"], "127.0.0.1");
    let printed = served.world.vik(&["sign-ins"]).expect(0).out;
    assert_contains(&printed, "Chromium two");
    assert!(!printed.contains('\u{9b}'), "{printed}");
    for token in &tokens {
        let secret = token.split_once('.').unwrap().1;
        assert!(!listed.to_string().contains(secret) && !printed.contains(secret));
    }

    let mut streams = [&first, &second].map(|browser| browser.events("/api/v1/events"));
    let id = tokens[0].split_once('.').unwrap().0;
    let done = served.world.vik(&["sign-ins", "revoke", id]).expect(0);
    assert_eq!(done.out, "1 browser signed out\n");
    ends(&mut streams[0]);
    let _ = first.get("/api/v1/state").expect_status(401);
    until(&mut streams[1], |event| event.event == "pulled");
    let unknown = served.world.vik(&["sign-ins", "revoke", id]).expect(8);
    assert_contains(&unknown.err, "vik sign-ins");
    let _ = second
        .post(&format!("/api/v1/sign-ins/{id}/revoke"), &json!({}))
        .expect_status(404);
    let own = tokens[1].split_once('.').unwrap().0;
    let _ = second
        .post(&format!("/api/v1/sign-ins/{own}/revoke"), &json!({}))
        .expect_status(200);
    ends(&mut streams[1]);
    let _ = second.get("/api/v1/state").expect_status(401);
    assert_eq!(served.get("/sign-ins")["sign_ins"], json!([]));
    served.end();
}

/// A suspended machine stops the timers of its programs, but not the wall clock.
#[test]
fn stream_ends_when_its_sign_in_expires_by_the_wall_clock() {
    let world = World::new(&[("1", "todo")]).script("ok");
    let folder = world.crash_dir();
    let served = Served::with(world, &[("VIK_CRASH_DIR", folder.to_str().unwrap())]);
    let token = sign_in(&served, "Firefox");
    let mut events = browser(&served, &token).events("/api/v1/events");
    until(&mut events, |event| event.event == "pulled");
    served.world.jump(8 * 24 * 3600);
    ends(&mut events);
    let _ = browser(&served, &token).get("/api/v1/state").expect_status(401);
    let _ = served.client().get("/api/v1/state").expect_status(200);
    served.end();
}

#[test]
fn sign_ins_and_revocations_survive_a_restart() {
    let served = done();
    let [kept, revoked] = ["kept", "revoked"].map(|name| sign_in(&served, name));
    let id = revoked.split_once('.').unwrap().0;
    served.world.vik(&["sign-ins", "revoke", id]).expect(0);
    let Served { world, daemon, .. } = served;
    daemon.stop().expect(0);
    let none = world.vik(&["sign-ins"]).expect(4);
    assert_contains(&none.err, "no daemon");
    let served = Served::of(world);
    let _ = browser(&served, &kept).get("/api/v1/state").expect_status(200);
    let _ = browser(&served, &revoked).get("/api/v1/state").expect_status(401);
    let done = served.world.vik(&["sign-ins", "revoke", "--all"]).expect(0);
    assert_eq!(done.out, "1 browser signed out\n");
    let _ = browser(&served, &kept).get("/api/v1/state").expect_status(401);
    served.end();
}
