//! Talking to the API server: server-side apply under one field manager, owners, events.
