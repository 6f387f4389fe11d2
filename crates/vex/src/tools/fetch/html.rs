//! Converts HTML to readable text: no scripts, no styles, no layout; headings, lists and links are
//! kept.
//!
//! This is not a browser: unknown constructs are left out. The time is proportional to the length
//! of the page.

use reqwest::Url;

/// Elements whose content is skipped.
const SKIPPED: [&str; 7] = [
    "script", "style", "noscript", "template", "svg", "iframe", "select",
];
/// Elements on lines of their own.
const LINES: [&str; 14] = [
    "address", "article", "aside", "dd", "div", "dt", "footer", "form", "header", "main", "nav", "section",
    "tr", "br",
];
/// Elements with space around them.
const PARAGRAPHS: [&str; 9] = ["blockquote", "dl", "hr", "ol", "p", "pre", "table", "title", "ul"];
/// The maximum length of a tag whose quotes are respected, in bytes.
const MAX_TAG_BYTES: usize = 8192;
/// The maximum depth of nested links.
const MAX_LINKS: usize = 16;

/// Returns the text of a page from this address.
pub(super) fn text(html: &str, base: &Url) -> String {
    let mut out = TextBuilder::default();
    let mut links: Vec<Option<String>> = Vec::new();
    let mut tail = html;
    while let Some(at) = tail.find('<') {
        out.push(&tail[..at]);
        let tag = &tail[at + 1..];
        if let Some(comment) = tag.strip_prefix("!--") {
            tail = comment.find("-->").map_or("", |end| &comment[end + 3..]);
            continue;
        }
        if !tag.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?')) {
            out.push("<");
            tail = tag;
            continue;
        }
        let Some(end) = tag_end(tag) else {
            tail = "";
            break;
        };
        let (inner, after) = (&tag[..end], &tag[end + 1..]);
        tail = after;
        let (closing, inner) = match inner.strip_prefix('/') {
            Some(inner) => (true, inner),
            None => (false, inner),
        };
        let name_end = inner
            .find(|c: char| c.is_ascii_whitespace() || c == '/')
            .unwrap_or(inner.len());
        let name = inner[..name_end].to_ascii_lowercase();
        if SKIPPED.contains(&name.as_str()) && !closing && !inner.ends_with('/') {
            tail = after_element(after, &name);
            continue;
        }
        match (name.as_str(), closing) {
            ("a", false) if links.len() < MAX_LINKS => {
                let address = attribute(&inner[name_end..], "href").and_then(|href| link(&href, base));
                links.push(address);
            }
            ("a", true) => {
                if let Some(Some(address)) = links.pop() {
                    out.push_raw(&format!(" ({address})"));
                }
            }
            ("li", false) => {
                out.break_line(1);
                out.push_raw("- ");
            }
            ("td" | "th", false) if out.in_line() => out.push_raw(" | "),
            ("pre", false) => {
                out.break_line(2);
                out.verbatim += 1;
            }
            ("pre", true) => {
                out.verbatim = out.verbatim.saturating_sub(1);
                out.break_line(2);
            }
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", false) => {
                out.break_line(2);
                out.push_raw(&format!(
                    "{} ",
                    "#".repeat(usize::from(name.as_bytes()[1] - b'0'))
                ));
            }
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", true) => out.break_line(2),
            (name, _) if PARAGRAPHS.contains(&name) => out.break_line(2),
            (name, _) if LINES.contains(&name) => out.break_line(1),
            _ => {}
        }
    }
    out.push(tail);
    out.text.truncate(out.text.trim_end().len());
    out.text.push('\n');
    out.text
}

/// Returns the end of a tag; a `>` within quotes is not one, unless the quotes do not end.
fn tag_end(tag: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in tag.bytes().enumerate().take(MAX_TAG_BYTES) {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    tag.find('>')
}

/// Returns the text after the end of an element whose content is skipped.
fn after_element<'a>(html: &'a str, name: &str) -> &'a str {
    let mut tail = html;
    while let Some(at) = tail.find("</") {
        tail = &tail[at + 2..];
        if tail
            .get(..name.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(name))
        {
            return tail.find('>').map_or("", |end| &tail[end + 1..]);
        }
    }
    ""
}

/// Returns the value of an attribute.
fn attribute(attributes: &str, wanted: &str) -> Option<String> {
    let mut tail = attributes.trim_start();
    while !tail.is_empty() {
        let end = tail
            .find(|c: char| c.is_ascii_whitespace() || c == '=')
            .unwrap_or(tail.len());
        let name = &tail[..end];
        tail = tail[end..].trim_start();
        let mut value = "";
        if let Some(after) = tail.strip_prefix('=') {
            let after = after.trim_start();
            (value, tail) = match after.chars().next() {
                Some(quote @ ('"' | '\'')) => after[1..].split_once(quote).unwrap_or((&after[1..], "")),
                _ => after.split_at(
                    after
                        .find(|c: char| c.is_ascii_whitespace())
                        .unwrap_or(after.len()),
                ),
            };
        } else if name.is_empty() {
            break;
        }
        if name.eq_ignore_ascii_case(wanted) {
            return Some(decoded(value));
        }
        tail = tail.trim_start();
    }
    None
}

/// Returns the address of a link that leads to another page.
fn link(href: &str, base: &Url) -> Option<String> {
    let href = href.trim();
    if href.is_empty() || href.starts_with('#') {
        return None;
    }
    let url = base.join(href).ok()?;
    matches!(url.scheme(), "http" | "https").then(|| url.to_string())
}

#[derive(Default)]
struct TextBuilder {
    text: String,
    /// Line breaks before the next text.
    breaks: usize,
    space: bool,
    verbatim: usize,
}

impl TextBuilder {
    fn break_line(&mut self, lines: usize) {
        self.breaks = self.breaks.max(lines);
        self.space = false;
    }

    /// Returns whether the line has text.
    fn in_line(&self) -> bool {
        self.breaks == 0 && !self.text.is_empty() && !self.text.ends_with('\n')
    }

    /// Adds text of the page.
    fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let text = decoded(text);
        if self.verbatim > 0 {
            self.push_raw(&text);
            return;
        }
        let mut words = text.split_whitespace().peekable();
        self.space |= text.starts_with(char::is_whitespace);
        while let Some(word) = words.next() {
            if self.space && self.in_line() && !self.text.ends_with(' ') {
                self.text.push(' ');
            }
            self.push_raw(word);
            self.space = words.peek().is_some() || text.ends_with(char::is_whitespace);
        }
    }

    fn push_raw(&mut self, text: &str) {
        if self.breaks > 0 {
            let kept = self.text.trim_end().len();
            self.text.truncate(kept);
            if kept > 0 {
                self.text.push_str(&"\n".repeat(self.breaks));
            }
            self.breaks = 0;
        }
        self.text.push_str(text);
    }
}

/// Replaces entities by characters; unknown ones are kept.
fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut tail = text;
    while let Some(at) = tail.find('&') {
        out.push_str(&tail[..at]);
        tail = &tail[at + 1..];
        let end = tail.bytes().take(10).position(|byte| byte == b';');
        match end.and_then(|end| Some((entity(&tail[..end])?, end))) {
            Some((character, end)) => {
                out.push(character);
                tail = &tail[end + 1..];
            }
            None => out.push('&'),
        }
    }
    out.push_str(tail);
    out
}

fn entity(name: &str) -> Option<char> {
    const NAMED: &[(&str, char)] = &[
        ("amp", '&'),
        ("lt", '<'),
        ("gt", '>'),
        ("quot", '"'),
        ("apos", '\''),
        ("nbsp", ' '),
        ("mdash", '—'),
        ("ndash", '–'),
        ("hellip", '…'),
        ("copy", '©'),
        ("reg", '®'),
        ("trade", '™'),
        ("laquo", '«'),
        ("raquo", '»'),
        ("lsquo", '‘'),
        ("rsquo", '’'),
        ("ldquo", '“'),
        ("rdquo", '”'),
        ("bull", '•'),
        ("middot", '·'),
        ("times", '×'),
        ("larr", '←'),
        ("rarr", '→'),
    ];
    match name.strip_prefix('#') {
        Some(number) => {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code).filter(|c| !c.is_control() || *c == '\n')
        }
        None => NAMED.iter().find(|(known, _)| *known == name).map(|(_, c)| *c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn base() -> Url {
        Url::parse("https://example.com/dir/page.html").unwrap()
    }

    #[test]
    fn html_page_becomes_text() {
        let page = r##"<!DOCTYPE html><html><head><title>Tom &amp; Jerry</title><style>p > a { color: red }</style>
            <script>if (a < b) { document.write("</p>") }</script></head><body><!-- <p>not this</p> -->
            <h1>Big   <em>news</em></h1><p>One
            two&nbsp;three <a href="../x?a=1&amp;b=2">link</a>, <a href='#here'>none</a> <a href="javascript:x()">js</a>.
            <p>1 < 2 &#8364; &#x41; &unknown; &<ul><li>first<li>second <b>bold</b></ul>
            <table><tr><th>a<th>b</tr><tr><td>1</td><td title="x > y">2</td></tr></table>
            <pre>fn main() {
    indented();
}</pre>after<br>line</body></html>"##;
        insta::assert_snapshot!(text(page, &base()));
    }

    #[test]
    fn hostile_page_takes_linear_time() {
        let n = 200_000;
        for piece in [
            "<", "<a \"", "<!--", "</", "<script>", "&", "<a href=", "<p>", "<a>", "<pre>",
        ] {
            let page = piece.repeat(n / piece.len());
            assert!(text(&page, &base()).len() <= 3 * n, "{piece}");
        }
    }

    #[test]
    fn deeply_nested_page_is_flat_text() {
        let depth = 10 * 1024 * 1024 / 16;
        let page = "<div><ul><li><b>".repeat(depth) + "end";
        let text = text(&page, &base());
        assert!(text.len() <= page.len() && text.ends_with("end\n"));
    }

    proptest! {
        #[test]
        fn text_of_any_page_never_panics(page in "([a-z<>&;/\"'= !äß\n-]|<a href=|<script>|<pre>|&#x){0,60}") {
            let text = text(&page, &base());
            prop_assert!(text.ends_with('\n'));
        }
    }
}
