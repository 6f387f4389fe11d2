//! The sections `webhooks` and `schedule`: triggers of pulls beside polling.

mod decode;
pub(super) mod file;
mod lower;

#[cfg(test)]
mod tests;
