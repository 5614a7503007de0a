//! The HTTPS admission webhook.
