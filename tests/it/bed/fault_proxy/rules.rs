//! Which of the things that pass are touched.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Chooses what a rule is about: requests (or connections) that match, and which of these, counted from one since the
/// rule was added.
#[derive(Clone, Debug)]
pub struct On {
    method: Option<String>,
    writes_only: bool,
    path: String,
    without: Option<String>,
    first: usize,
    last: usize,
}

impl On {
    /// Everything. For a [`super::TcpProxy`], every connection.
    pub fn any() -> Self {
        Self { method: None, writes_only: false, path: String::new(), without: None, first: 1, last: usize::MAX }
    }

    /// Requests of this method (`*`: of any) whose path and query contain `part`.
    pub fn request(method: &str, part: &str) -> Self {
        Self { method: (method != "*").then(|| method.to_owned()), path: part.to_owned(), ..Self::any() }
    }

    /// Requests that change something (of any method but GET) whose path and query contain `part`.
    pub fn write(part: &str) -> Self {
        Self { writes_only: true, ..Self::request("*", part) }
    }

    /// Not those whose path and query contain `part`.
    pub fn without(self, part: &str) -> Self {
        Self { without: Some(part.to_owned()), ..self }
    }

    /// Only the nth.
    pub fn nth(self, n: usize) -> Self {
        Self { first: n, last: n, ..self }
    }

    /// Only the first n.
    pub fn first(self, n: usize) -> Self {
        Self { first: 1, last: n, ..self }
    }

    /// The nth and all that follow.
    pub fn from(self, n: usize) -> Self {
        Self { first: n, last: usize::MAX, ..self }
    }

    fn matches(&self, method: &str, path: &str) -> bool {
        self.method.as_deref().is_none_or(|m| m == method)
            && !(self.writes_only && method == "GET")
            && path.contains(&self.path)
            && !self.without.as_ref().is_some_and(|without| path.contains(without))
    }
}

/// Names a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleId(usize);

#[derive(Debug)]
struct Rule<F> {
    id: RuleId,
    on: On,
    fault: F,
    matched: usize,
    applied: usize,
}

#[derive(Debug)]
struct Inner<F> {
    rules: Vec<Rule<F>>,
    seen: Vec<(String, String)>,
    added: usize,
}

/// Rules, and what has passed.
#[derive(Debug)]
pub struct Rules<F>(Mutex<Inner<F>>);

impl<F: Clone> Rules<F> {
    pub fn new() -> Self {
        Self(Mutex::new(Inner { rules: Vec::new(), seen: Vec::new(), added: 0 }))
    }

    pub fn add(&self, on: On, fault: F) -> RuleId {
        let mut inner = self.lock();
        inner.added += 1;
        let id = RuleId(inner.added);
        inner.rules.push(Rule { id, on, fault, matched: 0, applied: 0 });
        id
    }

    pub fn remove(&self, id: RuleId) {
        self.lock().rules.retain(|rule| rule.id != id);
    }

    pub fn clear(&self) {
        self.lock().rules.clear();
    }

    /// How often a rule has been applied; none once it is removed.
    pub fn applied(&self, id: RuleId) -> usize {
        self.lock().rules.iter().find(|rule| rule.id == id).map_or(0, |rule| rule.applied)
    }

    pub fn seen(&self) -> Vec<(String, String)> {
        self.lock().seen.clone()
    }

    pub fn count(&self, on: &On) -> usize {
        self.lock().seen.iter().filter(|(method, path)| on.matches(method, path)).count()
    }

    /// Notes what passes, and gives the fault of the first rule that is about it. Every rule that matches counts it.
    pub fn pass(&self, method: &str, path: &str) -> Option<F> {
        let mut inner = self.lock();
        inner.seen.push((method.to_owned(), path.to_owned()));
        let mut fault = None;
        for rule in inner.rules.iter_mut().filter(|rule| rule.on.matches(method, path)) {
            rule.matched += 1;
            if fault.is_none() && (rule.on.first..=rule.on.last).contains(&rule.matched) {
                rule.applied += 1;
                fault = Some(rule.fault.clone());
            }
        }
        fault
    }

    fn lock(&self) -> MutexGuard<'_, Inner<F>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{On, Rules};

    #[test]
    fn a_rule_counts_what_it_matches_and_applies_to_its_window() {
        let rules = Rules::new();
        let second = rules.add(On::request("PUT", "/a").nth(2), "second");
        let later = rules.add(On::request("*", "/a").from(3), "later");
        let faults: Vec<_> =
            [("PUT", "/a/1"), ("GET", "/a/1"), ("PUT", "/a/2"), ("PUT", "/b"), ("PUT", "/a/3"), ("GET", "/a?x=1")]
                .map(|(method, path)| rules.pass(method, path))
                .into();
        assert_eq!(faults, [None, None, Some("second"), None, Some("later"), Some("later")]);
        assert_eq!((rules.applied(second), rules.applied(later)), (1, 2));
        assert_eq!(rules.count(&On::request("PUT", "/a")), 3);
        assert_eq!(rules.count(&On::write("/a")), 3);
        assert_eq!(rules.count(&On::write("/").without("/a/")), 1);
        rules.remove(later);
        assert_eq!(rules.pass("GET", "/a"), None);
    }
}
