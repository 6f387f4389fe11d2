//! (module tracker)
