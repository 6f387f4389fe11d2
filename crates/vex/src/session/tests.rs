use super::*;

#[test]
fn session_ids_are_plain_uuids() {
    let id = SessionId::fresh();
    assert_eq!(id.to_string().parse::<SessionId>().unwrap(), id);
    assert_eq!(id.to_string().to_uppercase().parse::<SessionId>().unwrap(), id);
    for bad in [
        "",
        "x",
        "../../etc/passwd",
        "01a1ffcd34e978d1bc6db647a491f028",
        "{01a1ffcd-34e9-78d1-bc6d-b647a491f028}",
        "urn:uuid:01a1ffcd-34e9-78d1-bc6d-b647a491f028",
        "01a1ffcd-34e9-78d1-bc6d-b647a491f028/",
    ] {
        assert!(bad.parse::<SessionId>().is_err(), "{bad}");
    }
}

#[test]
fn fork_point_may_name_a_turn() {
    let id = SessionId::fresh();
    let parse = |text: &str| text.parse::<ForkPoint>();
    assert_eq!(parse(&id.to_string()).unwrap(), ForkPoint { id, turn: None });
    let at = parse(&format!("{id}@3")).unwrap();
    assert_eq!(at, ForkPoint { id, turn: Some(3) });
    assert_eq!(at.to_string(), format!("{id}@3"));
    assert!(matches!(
        parse(&format!("{id}@-1")),
        Err(SessionError::BadTurn(_))
    ));
    assert!(matches!(parse("@1"), Err(SessionError::BadId(_))));
}

mod logs;
