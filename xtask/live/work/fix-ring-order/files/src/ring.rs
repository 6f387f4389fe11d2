/// A buffer that keeps the last `capacity` items.
#[derive(Debug)]
pub struct Ring<T> {
    items: Vec<T>,
    capacity: usize,
    /// The index of the oldest item.
    start: usize,
}

impl<T> Ring<T> {
    /// Creates an empty buffer.
    ///
    /// # Panics
    ///
    /// If the capacity is 0.
    pub fn new(capacity: usize) -> Ring<T> {
        assert!(capacity > 0, "a ring needs a capacity");
        Ring {
            items: Vec::with_capacity(capacity),
            capacity,
            start: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Adds an item; a full buffer drops its oldest one.
    pub fn push(&mut self, item: T) {
        if self.items.len() < self.capacity {
            self.items.push(item);
        } else {
            self.items[self.start] = item;
            self.start = (self.start + 1) % self.capacity;
        }
    }

    /// Returns the newest item.
    pub fn last(&self) -> Option<&T> {
        self.iter().last()
    }

    /// Returns the items from the oldest to the newest.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.items.len()).map(|nth| &self.items[self.start + nth])
    }
}
