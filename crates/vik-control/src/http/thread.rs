//! A thread for a server, so that its clients take no time from the scheduler.

use std::io;

use tokio_util::sync::CancellationToken;

/// A thread with its own runtime. It ends when this is dropped.
#[derive(Debug)]
pub struct ServerThread {
    thread: Option<std::thread::JoinHandle<()>>,
    stop: CancellationToken,
    /// What it serves, for the log.
    service: &'static str,
}

impl ServerThread {
    /// Starts the thread, which has at most this number of threads for blocking calls.
    ///
    /// # Errors
    /// When the thread or the runtime cannot be created.
    pub fn start<F: Future<Output = ()>>(
        name: &str,
        service: &'static str,
        max_blocking_threads: usize,
        serve: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(max_blocking_threads)
            .enable_all()
            .build()?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.block_on(serve(stopped));
            // A scan of a workspace or a slow disk must not delay the shutdown.
            runtime.shutdown_background();
        })?;
        Ok(Self {
            thread: Some(thread),
            stop,
            service,
        })
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of {} panicked", self.service);
        }
    }
}
