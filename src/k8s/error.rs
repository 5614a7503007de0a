//! What an error of the API server means for the one who made the request.

use kube::Error;
use kube::core::Status;

/// The classes of error that a controller acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The object does not exist.
    NotFound,
    /// The name is taken.
    AlreadyExists,
    /// The object changed since it was read, or a precondition did not hold.
    Conflict,
    /// We may not do this: RBAC, or an admission policy or webhook that said no.
    Forbidden,
    /// The object is not acceptable as it is.
    Invalid,
    /// Anything that may pass by itself: time-outs, throttling, a server that is starting, a broken connection.
    Transient,
}

/// The class of an error.
#[must_use]
pub fn class(error: &Error) -> Class {
    match error {
        Error::Api(status) => class_of_status(status),
        _ => Class::Transient,
    }
}

/// The class of a failure that the API server itself told.
#[must_use]
pub fn class_of_status(status: &Status) -> Class {
    match (status.code, status.reason.as_str()) {
        (_, "AlreadyExists") => Class::AlreadyExists,
        // Not every 409 is about an old copy: a namespace that is going refuses new objects with Forbidden, and an
        // exceeded ResourceQuota with Forbidden too.
        (404 | 410, _) => Class::NotFound,
        (409, _) => Class::Conflict,
        (403, _) => Class::Forbidden,
        (400 | 405 | 406 | 413 | 415 | 422, _) => Class::Invalid,
        _ => Class::Transient,
    }
}

/// Whether the object does not exist.
#[must_use]
pub fn is_not_found(error: &Error) -> bool {
    class(error) == Class::NotFound
}

/// Whether the API server does not know the kind at all. What it says of an object that does not exist names the object.
#[must_use]
pub fn is_missing_kind(error: &Error) -> bool {
    match error {
        Error::Api(status) => status.code == 404 && status.details.as_ref().is_none_or(|of| of.name.is_empty()),
        _ => false,
    }
}

/// An error as one line for conditions and logs: what the server said, without the type names of our own stack.
#[must_use]
pub fn message(error: &Error) -> String {
    match error {
        Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        Error::Api(status) => format!("{} ({})", status.reason, status.code),
        other => {
            let mut text = other.to_string();
            let mut source = std::error::Error::source(other);
            while let Some(cause) = source {
                let cause_text = cause.to_string();
                if !text.contains(&cause_text) {
                    text.push_str(": ");
                    text.push_str(&cause_text);
                }
                source = cause.source();
            }
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, reason: &str) -> Status {
        Status { code, reason: reason.to_owned(), ..Status::default() }
    }

    #[test]
    fn a_taken_name_is_not_a_conflict() {
        assert_eq!(class_of_status(&status(409, "AlreadyExists")), Class::AlreadyExists);
        assert_eq!(class_of_status(&status(409, "Conflict")), Class::Conflict);
    }

    #[test]
    fn what_may_pass_by_itself_is_transient() {
        for code in [408, 429, 500, 502, 503, 504] {
            assert_eq!(class_of_status(&status(code, "")), Class::Transient, "{code}");
        }
    }

    #[test]
    fn a_denial_without_a_message_still_says_something() {
        let error = Error::Api(Box::new(status(403, "Forbidden")));
        assert_eq!(message(&error), "Forbidden (403)");
    }
}
