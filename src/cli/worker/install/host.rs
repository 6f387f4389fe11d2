//! Facts about the host, and whether a worker can run there.

use vik_base::report::Failure;

use super::destination::Destination;
use super::failure::{self, of_host};
use super::files::RemoteFile;
use super::ssh::Report;

/// The space that stays free, in KiB.
const RESERVE_KIB: u64 = 64 << 10;

/// What the inspection of a host reported.
#[derive(Clone, Debug, Default)]
pub struct HostFacts {
    pub system: String,
    pub machine: String,
    pub user: String,
    /// Programs that are not installed.
    pub missing: Vec<String>,
    pub free_kib: Option<u64>,
    pub has_session: bool,
    pub lingers: bool,
    /// The digest and the mode of each file.
    files: Vec<(usize, String, String)>,
}

impl HostFacts {
    pub fn add(&mut self, report: &Report) {
        let value = &report.value;
        match &*report.key {
            "system" => self.system.clone_from(value),
            "machine" => self.machine.clone_from(value),
            "user" => self.user.clone_from(value),
            "missing" => self.missing.push(value.clone()),
            "free" => self.free_kib = value.parse().ok(),
            "session" => self.has_session = value == "yes",
            "linger" => self.lingers = value == "yes",
            "file" => {
                let mut fields = value.split(' ');
                let index = fields.next().and_then(|index| index.parse().ok());
                if let (Some(index), Some(digest)) = (index, fields.next()) {
                    let mode = fields.next().unwrap_or_default();
                    self.files.push((index, digest.to_owned(), mode.to_owned()));
                }
            }
            _ => {}
        }
    }

    /// Returns whether the host has this file, which was inspected under this index.
    pub fn has(&self, index: usize, file: &RemoteFile) -> bool {
        let mode = format!("{:o}", file.mode);
        self.files
            .iter()
            .any(|(at, digest, known)| *at == index && *digest == file.digest && *known == mode)
    }

    /// Checks that a worker can run here, with this program.
    ///
    /// # Errors
    /// With what is missing.
    pub fn check(&self, host: &Destination, program: &[u8]) -> Result<(), Failure> {
        if self.system != "Linux" {
            let reason = format!("its system is {}", self.system);
            let hint = "workers are installed on Linux with systemd; elsewhere, start `vik worker` yourself";
            return Err(of_host(host, &reason, hint));
        }
        if let Some(architecture) = architecture(program).filter(|name| !is_same(name, &self.machine)) {
            let reason = format!("it is {}, and the program is for {architecture}", self.machine);
            let hint = format!("name a program for Linux on {} with --program FILE", self.machine);
            return Err(of_host(host, &reason, hint));
        }
        if self.missing.iter().any(|program| program == "systemctl") {
            let hint = "use a host with systemd, or start `vik worker` there yourself";
            return Err(of_host(host, "it has no systemd", hint));
        }
        if !self.missing.is_empty() {
            let reason = format!("these programs are missing: {}", self.missing.join(", "));
            return Err(of_host(host, &reason, "install them there"));
        }
        // Otherwise the start tries to enable lingering, which creates a session.
        if !self.has_session && self.lingers {
            return Err(failure::no_session(host, &self.user));
        }
        Ok(())
    }

    /// Checks that the files fit on the disk.
    ///
    /// # Errors
    /// With the space that is needed.
    pub fn check_space(&self, host: &Destination, files: &[&RemoteFile]) -> Result<(), Failure> {
        let bytes: usize = files.iter().map(|file| file.content.len()).sum();
        let needed = u64::try_from(bytes).unwrap_or(u64::MAX) / 1024 + RESERVE_KIB;
        match self.free_kib {
            Some(free) if free < needed => {
                let mib = |kib: u64| kib.div_ceil(1024);
                let reason = format!(
                    "it needs {} MiB of disk space, and {} MiB are free",
                    mib(needed),
                    free / 1024
                );
                Err(of_host(
                    host,
                    &reason,
                    "free some space in the home directory there",
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the architecture of a program as `uname -m` names it, if it is known.
fn architecture(program: &[u8]) -> Option<&'static str> {
    const MACH_O: [&[u8]; 2] = [b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"];
    if MACH_O.iter().any(|magic| program.starts_with(magic)) {
        return Some("macOS");
    }
    let is_little_endian = program.get(5) == Some(&1);
    match program.get(18..20)? {
        _ if !program.starts_with(b"\x7fELF") || !is_little_endian => None,
        [0x03, 0] => Some("i686"),
        [0x28, 0] => Some("arm"),
        [0x3e, 0] => Some("x86_64"),
        [0xb7, 0] => Some("aarch64"),
        [0xf3, 0] => Some("riscv64"),
        _ => None,
    }
}

fn is_same(architecture: &str, machine: &str) -> bool {
    match architecture {
        "arm" => machine.starts_with("arm"),
        "i686" => machine.ends_with("86") || machine == "x86_64",
        _ => machine == architecture,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(machine: u8) -> Vec<u8> {
        let mut program = b"\x7fELF\x02\x01\x01".to_vec();
        program.resize(64, 0);
        program[18] = machine;
        program
    }

    #[test]
    fn architecture_is_that_of_the_header() {
        assert_eq!(architecture(&elf(0x3e)), Some("x86_64"));
        assert_eq!(architecture(&elf(0xb7)), Some("aarch64"));
        assert_eq!(architecture(&elf(0x77)), None);
        assert_eq!(
            architecture(b"\xcf\xfa\xed\xfe and more than twenty"),
            Some("macOS")
        );
        assert_eq!(architecture(b"#!/bin/sh\nexit 0 # a script"), None);
        assert_eq!(architecture(b""), None);
        assert!(is_same("arm", "armv7l") && is_same("i686", "x86_64") && !is_same("x86_64", "aarch64"));
    }

    #[test]
    fn host_without_its_needs_is_refused() {
        let host: Destination = "build-1".parse().unwrap();
        let linux = HostFacts {
            system: "Linux".to_owned(),
            machine: "x86_64".to_owned(),
            user: "vik".to_owned(),
            has_session: true,
            free_kib: Some(70 << 10),
            ..HostFacts::default()
        };
        let message = |facts: &HostFacts| facts.check(&host, &elf(0x3e)).unwrap_err().body().message;
        assert!(linux.check(&host, &elf(0x3e)).is_ok());
        // The start tries to create a session.
        let without_session = HostFacts {
            has_session: false,
            ..linux.clone()
        };
        assert!(without_session.check(&host, &elf(0x3e)).is_ok());
        for (facts, expected) in [
            (
                HostFacts {
                    system: "Darwin".to_owned(),
                    ..linux.clone()
                },
                "its system is Darwin",
            ),
            (
                HostFacts {
                    machine: "aarch64".to_owned(),
                    ..linux.clone()
                },
                "it is aarch64, and the program is for x86_64",
            ),
            (
                HostFacts {
                    missing: vec!["systemctl".to_owned()],
                    ..linux.clone()
                },
                "it has no systemd",
            ),
            (
                HostFacts {
                    missing: vec!["tar".to_owned(), "flock".to_owned()],
                    ..linux.clone()
                },
                "these programs are missing: tar, flock",
            ),
            (
                HostFacts {
                    lingers: true,
                    ..without_session
                },
                "there is no systemd session",
            ),
        ] {
            assert!(message(&facts).contains(expected), "{}", message(&facts));
        }
        let file = |bytes| {
            RemoteFile::new(
                super::super::files::Part::Program,
                String::new(),
                0,
                vec![0; bytes],
            )
        };
        assert!(linux.check_space(&host, &[&file(5 << 20)]).is_ok());
        let failure = linux.check_space(&host, &[&file(10 << 20)]).unwrap_err();
        assert!(
            failure
                .body()
                .message
                .contains("needs 74 MiB of disk space, and 70 MiB are free")
        );
    }
}
