//! A network namespace for a child, with a loopback only, and listeners in it that are passed to
//! this process.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::libc;

/// The most listeners of a namespace.
pub(crate) const MAX_PORTS: usize = 16;

/// The channel between both processes: the child enters the namespace and sends its listeners.
#[derive(Debug)]
pub(crate) struct Gate {
    ours: OwnedFd,
    theirs: OwnedFd,
    uid_map: Vec<u8>,
    gid_map: Vec<u8>,
    ports: Vec<u16>,
}

/// A buffer for a control message with [`MAX_PORTS`] descriptors, aligned as the kernel requires.
#[repr(C, align(8))]
struct Control([u8; 128]);

impl Gate {
    pub(crate) fn new(ports: Vec<u16>) -> io::Result<Self> {
        use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
        let kind = SockType::SeqPacket;
        let (ours, theirs) = socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC)?;
        let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
        Ok(Self {
            ours,
            theirs,
            uid_map: format!("{uid} {uid} 1\n").into_bytes(),
            gid_map: format!("{gid} {gid} 1\n").into_bytes(),
            ports,
        })
    }

    /// Moves the calling process, which has one thread, into a network namespace. Safe between
    /// `fork` and `exec`.
    pub(crate) fn enter(&self) -> io::Result<()> {
        self.leave_network()?;
        loopback_up()?;
        let mut listeners = [-1; MAX_PORTS];
        let used = self.ports.len().min(MAX_PORTS);
        for (listener, port) in listeners.iter_mut().zip(&self.ports) {
            *listener = listen(*port)?;
        }
        send_listeners(self.theirs.as_raw_fd(), &listeners[..used])
    }

    /// Creates the namespace: the first step of [`enter`](Self::enter).
    #[allow(unsafe_code)]
    pub(crate) fn leave_network(&self) -> io::Result<()> {
        // SAFETY: plain numbers.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
            return Ok(());
        }
        // An unprivileged process may do that in a user namespace.
        // SAFETY: as above.
        Errno::result(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) })?;
        // The files in `/proc` of a process that is not dumpable, such as a shim's child, belong to
        // root. So the process is dumpable until they are written; it contains nothing that the
        // agent does not get.
        // SAFETY: plain numbers.
        let before = unsafe { libc::prctl(libc::PR_GET_DUMPABLE) };
        // SAFETY: as above.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) };
        let mapped = self.map_user();
        // SAFETY: as above.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, before) };
        mapped
    }

    /// Keeps the user and group ids in the new namespace.
    fn map_user(&self) -> io::Result<()> {
        // Without it the kernel accepts no map of groups from an unprivileged process; older
        // kernels have no such file.
        let _ = write_file(c"/proc/self/setgroups", b"deny");
        write_file(c"/proc/self/uid_map", &self.uid_map)?;
        write_file(c"/proc/self/gid_map", &self.gid_map)
    }

    /// Returns the listeners by port, once the child has sent them. Returns an error if the child
    /// failed before.
    pub(crate) fn listeners(self) -> io::Result<Vec<(u16, TcpListener)>> {
        let Self {
            ours, theirs, ports, ..
        } = self;
        // This end is closed so that the channel ends when a child fails.
        drop(theirs);
        let (_, received) = super::receive_descriptors(&ours, &mut [0])?;
        if received.len() != ports.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(ports
            .into_iter()
            .zip(received.into_iter().map(TcpListener::from))
            .collect())
    }

    /// Tests whether this system allows network namespaces, by means of a child that ends at once.
    #[allow(unsafe_code)]
    pub(crate) fn try_out() -> io::Result<()> {
        let gate = Self::new(Vec::new())?;
        let (read, write) = super::pipe()?;
        // SAFETY: the child makes system calls on memory that was prepared, and ends by `_exit`.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => return Err(io::Error::last_os_error()),
            0 => {
                let errno = match gate.leave_network().and_then(|()| loopback_up()) {
                    Ok(()) => 0,
                    Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
                };
                let bytes = errno.to_ne_bytes();
                // SAFETY: a valid descriptor and buffer; the child ends here.
                unsafe {
                    libc::write(write.as_raw_fd(), bytes.as_ptr().cast(), bytes.len());
                    libc::_exit(0)
                }
            }
            _ => {}
        }
        drop(write);
        let mut bytes = [0; 4];
        let length = nix::unistd::read(&read, &mut bytes)?;
        // Another part of this process that reaps all children may have reaped it already.
        let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None);
        match (length, i32::from_ne_bytes(bytes)) {
            (4, 0) => Ok(()),
            (4, errno) => Err(io::Error::from_raw_os_error(errno)),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Writes a file of the kernel. Allocates nothing.
#[allow(unsafe_code)]
fn write_file(path: &std::ffi::CStr, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: a valid path and buffer; the descriptor is closed here.
    unsafe {
        let fd = Errno::result(libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC))?;
        let written = Errno::result(libc::write(fd, bytes.as_ptr().cast(), bytes.len()));
        libc::close(fd);
        Ok(written.map(drop)?)
    }
}

#[allow(unsafe_code)]
fn loopback_up() -> io::Result<()> {
    // SAFETY: plain data, valid when zero; the descriptor is closed here.
    unsafe {
        let fd = Errno::result(libc::socket(
            libc::AF_INET,
            libc::SOCK_DGRAM | libc::SOCK_CLOEXEC,
            0,
        ))?;
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let done = Errno::result(libc::ioctl(fd, libc::SIOCSIFFLAGS as _, &raw const request));
        libc::close(fd);
        Ok(done.map(drop)?)
    }
}

/// Opens a listener on a port of the loopback.
#[allow(unsafe_code)]
fn listen(port: u16) -> io::Result<RawFd> {
    // SAFETY: plain data; the descriptor is the caller's, or ends with the process.
    unsafe {
        let fd = Errno::result(libc::socket(
            libc::AF_INET,
            libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
            0,
        ))?;
        let mut address: libc::sockaddr_in = std::mem::zeroed();
        address.sin_family = libc::AF_INET as libc::sa_family_t;
        address.sin_port = port.to_be();
        address.sin_addr.s_addr = u32::from(std::net::Ipv4Addr::LOCALHOST).to_be();
        let length = size_of_val(&address) as libc::socklen_t;
        Errno::result(libc::bind(fd, (&raw const address).cast(), length))?;
        Errno::result(libc::listen(fd, 128))?;
        Ok(fd)
    }
}

#[allow(unsafe_code)]
fn send_listeners(channel: RawFd, listeners: &[RawFd]) -> io::Result<()> {
    let mut byte = [0_u8; 1];
    let mut control = Control([0; 128]);
    // SAFETY: plain data, and buffers that outlive the call; the message is built as cmsg(3)
    // requires, and fits.
    let sent = unsafe {
        let mut part = libc::iovec {
            iov_base: byte.as_mut_ptr().cast(),
            iov_len: byte.len(),
        };
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        let bytes = size_of_val(listeners) as libc::c_uint;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(bytes) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(bytes) as _;
        std::ptr::copy_nonoverlapping(
            listeners.as_ptr(),
            libc::CMSG_DATA(header).cast(),
            listeners.len(),
        );
        libc::sendmsg(channel, &raw const message, libc::MSG_NOSIGNAL)
    };
    Ok(Errno::result(sent).map(drop)?)
}
