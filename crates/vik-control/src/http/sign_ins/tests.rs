use super::*;

const API_TOKEN: &str = "0123456789abcdef";

fn here() -> IpAddr {
    "127.0.0.1".parse().unwrap()
}

fn seconds(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

#[test]
fn token_is_valid_until_expiry_and_matches_exactly() {
    let sign_ins = SignIns::in_memory(API_TOKEN);
    let (token, expires_at) = sign_ins.create(here(), "Firefox", seconds(0)).unwrap();
    assert!(sign_ins.find(&token, here(), seconds(1)).is_some());
    let (id, secret) = token.split_once('.').unwrap();
    let other = if secret.starts_with('0') { "1" } else { "0" };
    for wrong in [
        "",
        ".",
        id,
        secret,
        &token[..token.len() - 1],
        &format!("{id}.{other}{}", &secret[1..]),
    ] {
        assert!(sign_ins.find(wrong, here(), seconds(1)).is_none(), "{wrong}");
    }
    assert!(sign_ins.find(&token, here(), expires_at).is_none());
    assert!(sign_ins.list(expires_at).is_empty());
}

#[test]
fn sign_ins_survive_a_restart_but_not_a_new_api_token() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sign_ins.json");
    let (token, _) = SignIns::load(&file, API_TOKEN)
        .create(here(), "Firefox", seconds(0))
        .unwrap();
    let stored = std::fs::read_to_string(&file).unwrap();
    assert!(
        !stored.contains(token.split_once('.').unwrap().1),
        "only an HMAC is stored"
    );
    let again = SignIns::load(&file, API_TOKEN);
    assert!(again.find(&token, here(), seconds(1)).is_some());
    assert!(
        SignIns::load(&file, "another-token-of-16")
            .find(&token, here(), seconds(1))
            .is_none()
    );
    assert_eq!(again.revoke(Some("none"), seconds(1)).unwrap(), 0);
    assert_eq!(again.revoke(None, seconds(1)).unwrap(), 1);
    assert!(
        SignIns::load(&file, API_TOKEN)
            .find(&token, here(), seconds(1))
            .is_none()
    );
    std::fs::write(&file, "{").unwrap();
    assert!(SignIns::load(&file, API_TOKEN).list(seconds(0)).is_empty());
}

#[test]
fn revoked_sign_in_cancels_only_its_own_requests() {
    let sign_ins = SignIns::in_memory(API_TOKEN);
    let [one, other] = ["one", "other"].map(|name| {
        let (token, _) = sign_ins.create(here(), name, seconds(0)).unwrap();
        sign_ins.find(&token, here(), seconds(1)).unwrap()
    });
    assert_eq!(sign_ins.revoke(Some(&one.id), seconds(2)).unwrap(), 1);
    assert!(one.revoked.is_cancelled() && !other.revoked.is_cancelled());
    let remaining: Vec<_> = sign_ins
        .list(seconds(2))
        .into_iter()
        .map(|view| view.user_agent)
        .collect();
    assert_eq!(remaining, ["other"]);
}

#[test]
fn sign_ins_are_limited_and_user_agents_are_plain_text() {
    let sign_ins = SignIns::in_memory(API_TOKEN);
    let (first, _) = sign_ins
        .create(here(), "\u{1b}[31mred\u{202e}\n", seconds(0))
        .unwrap();
    let shown = sign_ins.list(seconds(0))[0].user_agent.clone();
    assert!(!shown.contains(['\u{1b}', '\u{202e}', '\n']), "{shown:?}");
    for second in 1..=i64::try_from(MAX_SIGN_INS).unwrap() {
        sign_ins
            .create(here(), &"x".repeat(10_000), seconds(second))
            .unwrap();
    }
    let all = sign_ins.list(seconds(99));
    assert_eq!(all.len(), MAX_SIGN_INS);
    assert!(
        all.iter()
            .all(|view| view.user_agent.chars().count() <= MAX_USER_AGENT)
    );
    assert!(sign_ins.find(&first, here(), seconds(99)).is_none());
}

#[test]
fn sign_in_that_cannot_be_saved_revokes_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let sign_ins = SignIns::load(&folder.path().join("sign_ins.json"), API_TOKEN);
    let all: Vec<_> = (0..MAX_SIGN_INS)
        .map(|_| {
            let (token, _) = sign_ins.create(here(), "Firefox", seconds(0)).unwrap();
            sign_ins.find(&token, here(), seconds(1)).unwrap()
        })
        .collect();
    folder.close().unwrap();
    sign_ins.create(here(), "late", seconds(2)).unwrap_err();
    let listed = sign_ins.list(seconds(2));
    assert_eq!(listed.len(), MAX_SIGN_INS);
    for one in all {
        assert!(!one.revoked.is_cancelled() && listed.iter().any(|view| view.id == one.id));
    }
}
