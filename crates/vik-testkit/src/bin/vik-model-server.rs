//! The scripted model server as a program: `vik-model-server [--port N] [--script FILE]
//! [--script-dir DIR] [--record FILE]`. It prints its address as the first line and runs until it
//! is killed.

use std::io::Write;
use std::process::ExitCode;

use vik_testkit::server::{ModelServer, ModelServerOptions, Script};

fn main() -> ExitCode {
    match start() {
        Ok(server) => {
            let mut stdout = std::io::stdout();
            let printed = writeln!(stdout, "{}", server.url()).and_then(|()| stdout.flush());
            if printed.is_err() {
                return ExitCode::FAILURE;
            }
            server.join();
            ExitCode::SUCCESS
        }
        Err(reason) => {
            let _ = writeln!(std::io::stderr(), "vik-model-server: {reason}");
            ExitCode::from(2)
        }
    }
}

fn start() -> Result<ModelServer, String> {
    let mut options = ModelServerOptions::default();
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args.next().ok_or_else(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--port" => options.port = value.parse().map_err(|_| format!("{value:?} is no port"))?,
            "--script" => {
                let text = std::fs::read_to_string(&value).map_err(|e| format!("{value}: {e}"))?;
                options.default = Script::parse(&text).map_err(|e| format!("{value}: {e}"))?;
            }
            "--script-dir" => options.script_dir = Some(value.into()),
            "--record" => options.record = Some(value.into()),
            _ => return Err(format!("unknown flag {flag}")),
        }
    }
    ModelServer::start_with(options).map_err(|e| e.to_string())
}
