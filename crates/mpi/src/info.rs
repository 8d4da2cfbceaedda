//! Info objects: key-value pairs, in the order in which the keys were set.

/// Ordered key-value pairs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Info {
    entries: Vec<(String, String)>,
}

impl Info {
    /// Sets a value. An existing key keeps its place.
    pub fn set(&mut self, key: &str, value: &str) {
        match self.entries.iter_mut().find(|(own, _)| own == key) {
            Some((_, own)) => value.clone_into(own),
            None => self.entries.push((key.into(), value.into())),
        }
    }

    /// The value of a key.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.entries.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_str())
    }

    /// Deletes a key. False if it did not exist.
    pub fn delete(&mut self, key: &str) -> bool {
        let before = self.entries.len();
        self.entries.retain(|(own, _)| own != key);
        self.entries.len() < before
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.entries.iter().map(|(key, _)| key.as_str())
    }

    /// The keys with their values, in order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Info {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Info {
        let mut info = Info::default();
        for (key, value) in entries {
            info.set(key.as_ref(), value.as_ref());
        }
        info
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_in_the_order_in_which_they_came() {
        let mut info: Info = [("b", "1"), ("a", "2"), ("c", "3"), ("b", "4")].into_iter().collect();
        assert!(info.keys().eq(["b", "a", "c"]));
        assert_eq!((info.value("b"), info.value("B")), (Some("4"), None));
        assert!(info.delete("a"));
        assert!(!info.delete("a"));
        info.set("a", "");
        assert!(info.entries().eq([("b", "4"), ("c", "3"), ("a", "")]));
    }
}
