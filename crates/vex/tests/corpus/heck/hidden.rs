use heck::{ToKebabCase, ToSnakeCase, ToTitleCase, ToUpperCamelCase};

#[test]
fn capitals_end_before_the_next_word() {
    assert_eq!("XMLHttpRequest".to_snake_case(), "xml_http_request");
    assert_eq!("IOError in HTTPServer".to_kebab_case(), "io-error-in-http-server");
    assert_eq!("aBCDe".to_title_case(), "A Bc De");
    assert_eq!("ABC123DEF456".to_upper_camel_case(), "Abc123def456");
}
