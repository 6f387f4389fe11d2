//! No tool changes anything out of scope, by any path; the refusal names what may be changed.

use serde_json::{Value, json};

use super::testing::Bench;

fn refused(bench: &Bench, tool: &str, input: Value) -> Value {
    let result = bench.call(tool, input);
    assert!(result.is_error && result.denied, "{tool}: {}", result.output);
    serde_json::from_str(&result.output).unwrap()
}

#[test]
fn writing_tools_keep_to_the_scope() {
    let bench = Bench::scoped(&["src/a", "!src/a/lock"]);
    for path in ["src/a/x", "src/a/lock", "src/ab", "docs/y"] {
        bench.put(path, "old\n");
    }
    let good = bench.call("write_file", json!({"path": "src/a/new", "content": "n\n"}));
    assert!(!good.is_error, "{}", good.output);
    let good = bench.call("read_file", json!({"path": "docs/y"}));
    assert!(!good.is_error, "reading is not kept out: {}", good.output);
    for path in [
        "src/ab",
        "docs/new",
        "docs/deep/new",
        "src/a/lock",
        "src/a/../../z",
        "./src/b",
    ] {
        let refusal = refused(&bench, "write_file", json!({"path": path, "content": "n"}));
        assert_eq!(refusal["code"], "out_of_scope", "{path}");
        assert_eq!(refusal["allowed"], json!(["src/a, !src/a/lock"]));
        assert!(
            refusal["path"].is_string() && refusal["instead"].is_string(),
            "{refusal}"
        );
    }
    assert!(!bench.path("docs/deep").exists(), "not even its folder is made");
    for patch in [
        "*** Begin Patch\n*** Update File: docs/y\n-old\n+new\n*** End Patch\n",
        "*** Begin Patch\n*** Delete File: docs/y\n*** End Patch\n",
        "*** Begin Patch\n*** Update File: src/a/x\n*** Move to: docs/x\n-old\n+new\n*** End Patch\n",
        "*** Begin Patch\n*** Update File: docs/y\n*** Move to: src/a/y\n-old\n+new\n*** End Patch\n",
        "*** Begin Patch\n*** Update File: src/a/x\n-old\n+new\n*** Add File: z\n+z\n*** End Patch\n",
    ] {
        assert_eq!(
            refused(&bench, "apply_patch", json!({ "patch": patch }))["code"],
            "out_of_scope"
        );
    }
    for path in ["src/a/x", "src/a/lock", "src/ab", "docs/y"] {
        assert_eq!(bench.get(path), "old\n", "{path}");
    }
}

#[test]
fn link_is_judged_by_its_target() {
    let bench = Bench::scoped(&["src"]);
    bench.put("src/x", "old\n");
    bench.put("docs/y", "old\n");
    std::os::unix::fs::symlink("../docs", bench.path("src/out")).unwrap();
    std::os::unix::fs::symlink("src", bench.path("in")).unwrap();
    let refusal = refused(
        &bench,
        "write_file",
        json!({"path": "src/out/new", "content": "n"}),
    );
    assert_eq!(refusal["code"], "out_of_scope");
    let good = bench.call("write_file", json!({"path": "in/new", "content": "n\n"}));
    assert!(!good.is_error, "{}", good.output);
}
