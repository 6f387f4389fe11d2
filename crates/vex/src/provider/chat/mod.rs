//! The protocol `chat`: OpenAI Chat Completions, also spoken by llama.cpp, vLLM, Ollama, OpenRouter
//! and many others.

mod request;
mod stream;

pub(crate) use request::body;
pub use stream::ChatDecoder;
