//! Checks any text as a `config.toml` of vex and as `--config`: parsing never panics, an error
//! names the file, and parsed settings survive a round trip through TOML.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vex::config::{LoadedConfig, Settings, Sources};

fuzz_target!(|text: &str| {
    match Settings::parse("config.toml", text) {
        Ok(settings) => {
            let written = toml::to_string(&settings).expect("settings can be written");
            assert_eq!(Settings::parse("again", &written).expect("and read again"), settings);
        }
        Err(error) => assert!(error.to_string().starts_with("config.toml")),
    }
    let overrides = [text.to_owned()];
    let nowhere = "/nonexistent/config.toml";
    let mut sources = Sources::of_variables(Vec::new());
    sources.system = nowhere.into();
    sources.user = None;
    sources.overrides = &overrides;
    if let Ok(loaded) = LoadedConfig::load(&sources) {
        // One line sets one key and nothing else.
        assert!(loaded.shown().iter().all(|shown| shown.origin == "default" || shown.origin == "--config"));
    }
});
