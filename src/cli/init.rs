//! `vik init`
pub fn run(_: std::path::PathBuf, _: &super::args::InitArgs) -> super::Done { Ok(crate::report::Exit::Bug) }
