use super::*;

fn with<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
    move |name| {
        let found = pairs.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| (*value).to_owned())
    }
}

fn found(
    name: Option<&str>,
    url: Option<&str>,
    config: &str,
    env: &[(&str, &str)],
) -> Result<Endpoint, String> {
    let configured: BTreeMap<String, ProviderConfig> = toml::from_str(config).unwrap();
    endpoint(name, url, &configured, &with(env)).map_err(|error| error.to_string())
}

#[test]
fn key_is_exposed_only_when_sent_unencrypted_to_another_machine() {
    let shows = |url: &str, key: bool| {
        let config = format!("[a]\nprotocol = \"chat\"\nbase_url = \"{url}\"\napi_key_env = \"K\"\n");
        let env: &[(&str, &str)] = if key { &[("K", "k")] } else { &[] };
        found(Some("a"), None, &config, env).is_ok_and(|endpoint| endpoint.shows_key())
    };
    assert!(shows("http://models.example.com/v1", true));
    assert!(shows("HTTP://models.example.com/v1", true));
    assert!(!shows("http://models.example.com/v1", false));
    assert!(!shows("https://models.example.com/v1", true));
    assert!(!shows("http://127.0.0.1:8080/v1", true));
}

#[test]
fn provider_is_the_named_one_or_the_one_with_a_key() {
    let one = found(None, None, "", &[("ANTHROPIC_API_KEY", "k1")]).unwrap();
    assert_eq!(
        (one.name.as_str(), one.base_url.as_str()),
        ("anthropic", "https://api.anthropic.com")
    );
    assert_eq!(
        one.address("/v1/messages"),
        "https://api.anthropic.com/v1/messages"
    );
    let both = [("ANTHROPIC_API_KEY", "k1"), ("OPENAI_API_KEY", "k2")];
    let two = found(None, None, "", &both).unwrap_err();
    assert!(
        two.contains("anthropic and openai") && !two.contains("k1"),
        "{two}"
    );
    let none = found(None, None, "", &[("OPENAI_API_KEY", "")]).unwrap_err();
    assert!(
        none.contains("OPENAI_API_KEY") && none.contains("ollama"),
        "{none}"
    );
    let named = found(Some("openai"), None, "", &both).unwrap();
    assert_eq!(named.address("/responses"), "https://api.openai.com/v1/responses");
    assert_eq!(named.key.unwrap().expose(), "k2");
    assert!(
        found(Some("opneai"), None, "", &both)
            .unwrap_err()
            .contains("openrouter")
    );
    assert!(
        found(Some("openai"), None, "", &[])
            .unwrap_err()
            .contains("OPENAI_API_KEY is not set")
    );
}

#[test]
fn address_alone_is_a_local_server_without_a_key() {
    let local = found(None, Some("http://127.0.0.1:9"), "", &[("OPENAI_API_KEY", "k2")]).unwrap();
    assert_eq!((local.name.as_str(), local.key), ("local", None));
    assert_eq!(local.base_url, "http://127.0.0.1:9/v1");
    // A known provider behind a server on this machine may omit its key.
    let near = found(Some("anthropic"), Some("http://localhost:9/"), "", &[]).unwrap();
    assert_eq!((near.base_url.as_str(), near.key), ("http://localhost:9", None));
}

#[test]
fn endpoint_prefers_flag_then_environment_then_settings() {
    let config = "[openai]\nbase_url = 'https://c.example/v1'\napi_key_env = 'K'\nprotocol = 'chat'\n[mine]\nbase_url = 'http://[::1]:1/api/v3'\nprotocol = 'responses'\napi_key_header = 'API-Key'\nquery = { version = '1' }\n";
    let env = [("K", " key\n"), ("OPENAI_BASE_URL", "https://e.example/v1")];
    let url = |flag, env: &[(&str, &str)]| found(Some("openai"), flag, config, env).unwrap().base_url;
    assert_eq!(url(Some("https://f.example/x"), &env), "https://f.example/x");
    assert_eq!(url(None, &env), "https://e.example/v1");
    assert_eq!(url(None, &env[..1]), "https://c.example/v1");
    let openai = found(Some("openai"), None, config, &env).unwrap();
    assert_eq!(
        (openai.protocol, openai.key.unwrap().expose()),
        (Protocol::Chat, "key")
    );
    let mine = found(Some("mine"), None, config, &env).unwrap();
    assert_eq!(
        (mine.base_url.as_str(), mine.key_header.as_deref()),
        ("http://[::1]:1/api/v3", Some("API-Key"))
    );
    assert!(mine.is_local());
}

#[test]
fn base_url_must_be_valid_and_hold_no_secret() {
    for bad in [
        "127.0.0.1:80",
        "ftp://a",
        "http://u:p@a",
        "http://a?key=1",
        "nothing",
    ] {
        let error = found(Some("local"), Some(bad), "", &[]).unwrap_err();
        assert!(!error.contains("u:p"), "{error}");
    }
    assert!(
        found(Some("x"), None, "[x]\nbase_url = 'http://a'", &[])
            .unwrap_err()
            .contains("protocol")
    );
    assert!(
        found(Some("x"), None, "[x]\nprotocol = 'chat'", &[])
            .unwrap_err()
            .contains("base_url")
    );
}

#[test]
fn debug_output_has_no_key() {
    let config =
        "[m]\nprotocol = 'chat'\nbase_url = 'http://a'\napi_key_env = 'K'\nheaders = { x = 'sesame' }";
    let endpoint = found(Some("m"), None, config, &[("K", "open-sesame")]).unwrap();
    assert!(!format!("{endpoint:?}").contains("sesame"));
    let configured: BTreeMap<String, ProviderConfig> = toml::from_str(config).unwrap();
    assert!(!format!("{configured:?}").contains("sesame"));
}
