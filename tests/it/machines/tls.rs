//! Connections with certificates and API keys.

use serde_json::{Value, json};

use super::cluster::{Cluster, Machine};
use super::proxy::{Access, Certificates, Proxy, SERVER_NAME};
use crate::support::{assert_contains, eventually};

/// A cluster behind a proxy. Its certificates are in `certificates` beside the folders of the machines.
struct Secured {
    cluster: Cluster,
    certificates: Certificates,
    proxy: Proxy,
    /// The number of connections that were expected to fail.
    attempt: u32,
}

impl Secured {
    #[expect(clippy::print_stdout, reason = "`cargo xtask test` lists what was skipped")]
    fn start(access: Access, client: &Value) -> Option<Self> {
        let agent = json!({"runtime": "command", "command": ["vik-scripted-agent"]});
        let mut cluster = Cluster::start(&[("1", "todo")], agent, "SCRIPT: ok")?;
        let folder = cluster.env.work().join("certificates");
        let Some(certificates) = Certificates::new(folder) else {
            println!("skipped: `openssl` is not installed");
            return None;
        };
        certificates.authority("other-ca");
        certificates.issue("server", SERVER_NAME, 2);
        certificates.issue("expired-server", SERVER_NAME, 0);
        certificates.issue("client", "client", 2);
        certificates.issue("expired-client", "client", 0);
        let proxy = Proxy::start(cluster.port(), &certificates, access);
        let temporal = &mut cluster.flow["engine"]["temporal"];
        temporal["address"] = json!(format!("127.0.0.1:{}", proxy.port));
        for (key, value) in client.as_object().unwrap() {
            temporal[key] = value.clone();
        }
        Some(Self {
            cluster,
            certificates,
            proxy,
            attempt: 0,
        })
    }

    fn secret(&self, file: &str) -> String {
        let text = std::fs::read_to_string(self.certificates.path(file)).unwrap();
        text.lines().nth(1).unwrap().to_owned()
    }

    /// Asserts that a hub and a worker end with this error, and that `vik doctor` shows it.
    fn assert_fails(self, client: &Value, expected: &[&str]) -> Self {
        let (secured, machines) = self.assert_reports(client, expected);
        for mut machine in machines {
            eventually("it ends", || !machine.is_running());
            let log = machine.log();
            assert_eq!(machine.ended().code(), Some(1), "{log}");
        }
        secured
    }

    /// Asserts that a hub and a worker try again with this error, and that `vik doctor` shows it.
    fn assert_waits(self, client: &Value, expected: &[&str]) -> Self {
        let (secured, machines) = self.assert_reports(client, expected);
        for mut machine in machines {
            assert_contains(machine.log(), "trying again");
            assert!(machine.is_running());
            machine.kill();
        }
        secured
    }

    fn assert_reports(mut self, client: &Value, expected: &[&str]) -> (Self, [Machine; 2]) {
        let temporal = &mut self.cluster.flow["engine"]["temporal"];
        for (key, value) in client.as_object().unwrap() {
            temporal[key] = value.clone();
        }
        self.attempt += 1;
        let machines = [
            self.cluster.hub(&format!("hub-{}", self.attempt)),
            self.cluster.start_worker(&format!("worker-{}", self.attempt)),
        ];
        let (status, output) = doctor(&self.cluster, &machines[0]);
        assert_eq!(status, Some(1), "{output}");
        self.assert_error(&output, expected);
        for machine in &machines {
            machine.wait_for(expected[0]);
            self.assert_error(&machine.log(), expected);
        }
        (self, machines)
    }

    fn assert_error(&self, output: &str, expected: &[&str]) {
        for expected in expected {
            assert_contains(output, expected);
        }
        for key in ["client.key", "expired-client.key"] {
            assert!(!output.contains(&self.secret(key)), "{output}");
        }
    }
}

fn doctor(cluster: &Cluster, machine: &Machine) -> (Option<i32>, String) {
    let done = cluster
        .env
        .vik(["doctor", "--workflow"])
        .arg(&machine.workflow)
        .output()
        .unwrap();
    let output = [done.stdout, done.stderr].concat();
    (done.status.code(), String::from_utf8(output).unwrap())
}

fn wait_until_done(cluster: &Cluster, issue: &str) {
    eventually(&format!("issue {issue} is done"), || {
        cluster.tracker.state(issue).as_deref() == Some("done")
    });
}

fn with_client_certificates(certificate: &'static str) -> Access {
    Access {
        certificate,
        client_certificates: true,
        api_keys: Vec::new(),
    }
}

fn tls(ca: &str, client: Option<&str>) -> Value {
    let mut tls = json!({"ca_file": format!("../certificates/{ca}.pem"), "server_name": SERVER_NAME});
    if let Some(client) = client {
        tls["cert_file"] = json!(format!("../certificates/{client}.pem"));
        tls["key_file"] = json!(format!("../certificates/{client}.key"));
    }
    json!({"tls": tls})
}

#[test]
fn issue_is_done_where_the_server_asks_for_certificates() {
    let access = with_client_certificates("server");
    let Some(secured) = Secured::start(access, &tls("ca", Some("client"))) else {
        return;
    };
    let cluster = &secured.cluster;
    let worker = cluster.worker("w");
    let hub = cluster.hub("hub");
    wait_until_done(cluster, "1");
    let (status, output) = doctor(cluster, &hub);
    assert_eq!(status, Some(0), "{output}");
    for log in [worker.log(), hub.log(), output] {
        assert!(!log.contains(&secured.secret("client.key")), "{log}");
    }
    hub.stop();
    worker.stop();
}

#[test]
fn certificate_that_is_not_accepted_is_an_error_with_its_key() {
    let access = with_client_certificates("server");
    let Some(secured) = Secured::start(access, &json!({})) else {
        return;
    };
    let name = |name: &str| {
        let mut tls = tls("ca", Some("client"));
        tls["tls"]["server_name"] = json!(name);
        tls
    };
    secured
        .assert_fails(
            &tls("other-ca", Some("client")),
            &["`engine.temporal.tls.ca_file`"],
        )
        .assert_fails(
            &name("another.test"),
            &["`engine.temporal.tls.server_name`", SERVER_NAME],
        )
        .assert_waits(
            &tls("ca", None),
            &["the workflow has none", "`engine.temporal.tls.cert_file`"],
        )
        .assert_waits(
            &tls("ca", Some("expired-client")),
            &["`engine.temporal.tls.cert_file`", "expired"],
        );
}

#[test]
fn expired_certificate_of_the_server_is_an_error() {
    let access = with_client_certificates("expired-server");
    let Some(secured) = Secured::start(access, &json!({})) else {
        return;
    };
    let expected = ["the certificate of the server", "expired"];
    secured.assert_fails(&tls("ca", Some("client")), &expected);
}

#[test]
fn api_key_is_read_again_after_it_has_changed() {
    const KEYS: [&str; 2] = ["first-key-0123456789", "second-key-0123456789"];
    let access = Access {
        certificate: "server",
        client_certificates: false,
        api_keys: vec![KEYS[0]],
    };
    let Some(mut secured) = Secured::start(access, &tls("ca", None)) else {
        return;
    };
    let file = secured.certificates.path("api-key");
    let flow = &mut secured.cluster.flow;
    flow["secrets"] = json!({"TEMPORAL_KEY": {"file": "../certificates/api-key"}});
    std::fs::write(&file, "wrong-key-0123456789\n").unwrap();
    let key = json!({"api_key": "${TEMPORAL_KEY}"});
    let secured = secured.assert_fails(&key, &["`engine.temporal.api_key`", "Request unauthorized"]);
    std::fs::write(&file, KEYS[0]).unwrap();
    let cluster = &secured.cluster;
    let machines = [cluster.worker("w"), cluster.hub("hub")];
    wait_until_done(cluster, "1");
    secured.proxy.accept(&KEYS);
    std::fs::write(&file, KEYS[1]).unwrap();
    for machine in &machines {
        machine.wait_for("the API key of the Temporal server has changed");
    }
    secured.proxy.accept(&KEYS[1..]);
    cluster.tracker.add("2", "Issue 2", "todo");
    wait_until_done(cluster, "2");
    for machine in machines {
        let log = machine.log();
        for key in ["first-key", "second-key", "wrong-key"] {
            assert!(!log.contains(key), "{log}");
        }
        machine.stop();
    }
}
