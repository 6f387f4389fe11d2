//! How a worker reports to the service manager that it is connected, so that `vik worker install`
//! and `systemctl status` show it.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// How the status of a unit starts while its worker is connected.
pub const CONNECTED: &str = "connected";

/// Reports to systemd that the worker announced itself on the server at `address`, in the queue
/// `queue`. systemd forgets it when the worker ends. Without systemd, nothing happens.
///
/// # Errors
/// When systemd does not take the report.
pub fn report_connected(address: &str, queue: &str) -> io::Result<()> {
    match std::env::var_os("NOTIFY_SOCKET") {
        Some(socket) => send_connected(Path::new(&socket), address, queue),
        None => Ok(()),
    }
}

/// Sends the report to a socket, as described in sd_notify(3).
fn send_connected(socket: &Path, address: &str, queue: &str) -> io::Result<()> {
    let status = format!("STATUS={CONNECTED} to {address}, queue {queue}");
    // Another line would be another field.
    let status = status.replace(char::is_control, " ");
    let sender = UnixDatagram::unbound()?;
    #[cfg(target_os = "linux")]
    if let Some(name) = socket.as_os_str().as_bytes().strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt as _;
        use std::os::unix::net::SocketAddr;
        let address = SocketAddr::from_abstract_name(name)?;
        return sender.send_to_addr(status.as_bytes(), &address).map(drop);
    }
    sender.send_to(status.as_bytes(), socket).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_is_one_status_for_systemd() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        send_connected(&path, "temporal:7233", "a\nMAINPID=1").unwrap();
        let mut buffer = [0; 200];
        let length = socket.recv(&mut buffer).unwrap();
        assert_eq!(
            std::str::from_utf8(&buffer[..length]).unwrap(),
            "STATUS=connected to temporal:7233, queue a MAINPID=1"
        );
    }

    #[test]
    fn report_without_systemd_is_nothing() {
        // The runner of the tests is no unit.
        if std::env::var_os("NOTIFY_SOCKET").is_none() {
            report_connected("temporal:7233", "q").unwrap();
        }
    }
}
