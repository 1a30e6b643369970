//! A few things by key, of which the least recently used one goes first.
//!
//! Law:
//! 1. Never more than its bound are kept. One that is asked for again and again costs one comparison.

#[derive(Debug)]
pub struct Recent<K, V> {
    bound: usize,
    /// Each with when it was last asked for.
    items: Vec<(K, V, u64)>,
    /// Where the last one is, and how many questions there were.
    last: usize,
    clock: u64,
}

impl<K: PartialEq, V> Recent<K, V> {
    pub fn new(bound: usize) -> Recent<K, V> {
        Recent {
            bound,
            items: Vec::new(),
            last: 0,
            clock: 0,
        }
    }

    /// What `is_it` knows by its key, or what `make` makes.
    pub fn get_or_make<E>(
        &mut self,
        is_it: impl Fn(&K) -> bool,
        make: impl FnOnce() -> Result<(K, V), E>,
    ) -> Result<&mut V, E> {
        self.clock += 1;
        let found = |item: &(K, V, u64)| is_it(&item.0);
        if !self.items.get(self.last).is_some_and(found) {
            self.last = match self.items.iter().position(found) {
                Some(at) => at,
                None => {
                    let (key, value) = make()?;
                    self.add(key, value)
                }
            };
        }
        let (_, value, used) = &mut self.items[self.last];
        *used = self.clock;
        Ok(value)
    }

    /// What `is_it` knows by its key, if it is there; it counts as used no later for it.
    pub fn find(&mut self, is_it: impl Fn(&K) -> bool) -> Option<&mut V> {
        let found = |item: &(K, V, u64)| is_it(&item.0);
        if !self.items.get(self.last).is_some_and(found) {
            self.last = self.items.iter().position(found)?;
        }
        Some(&mut self.items[self.last].1)
    }

    /// Whether something is kept.
    pub fn has(&self, is_it: impl Fn(&K) -> bool) -> bool {
        self.items.iter().any(|item| is_it(&item.0))
    }

    /// What there is.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.items.iter().map(|item| &item.1)
    }

    /// Where there is no more room, take out what goes next.
    pub fn make_room(&mut self) -> Option<V> {
        match self.items.len() < self.bound {
            true => None,
            false => Some(self.items.swap_remove(self.oldest()).1),
        }
    }

    fn oldest(&self) -> usize {
        let all = 0..self.items.len();
        all.min_by_key(|&at| self.items[at].2).unwrap_or(0)
    }

    fn add(&mut self, key: K, value: V) -> usize {
        let item = (key, value, self.clock);
        if self.items.len() < self.bound {
            self.items.push(item);
            return self.items.len() - 1;
        }
        let at = self.oldest();
        self.items[at] = item;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_stays() {
        let mut recent = Recent::new(3);
        let mut ask = |key: u32| {
            let mut made = false;
            let make = || {
                made = true;
                Ok::<_, ()>((key, key * 10))
            };
            assert_eq!(recent.get_or_make(|k| *k == key, make), Ok(&mut (key * 10)));
            made
        };
        let made = [1, 2, 3, 1, 1, 4, 1, 2, 3].map(&mut ask);
        assert_eq!(
            made,
            [true, true, true, false, false, true, false, true, true]
        );
        assert!(recent.get_or_make(|_| false, || Err(())).is_err());
        assert_eq!(recent.find(|key| *key == 3), Some(&mut 30));
        assert_eq!(recent.find(|key| *key == 1), Some(&mut 10));
        assert_eq!(recent.find(|key| *key == 4), None);
        assert_eq!(recent.make_room(), Some(10));
        assert_eq!(recent.make_room(), None);
        assert!(recent.has(|k| *k == 3) && !recent.has(|k| *k == 1));
    }
}
