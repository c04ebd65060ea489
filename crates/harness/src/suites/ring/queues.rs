//! The queues that are compared, behind one face.

use std::sync::{Arc, mpsc};

use crossbeam::queue::ArrayQueue;

/// A record: one cache line.
pub(super) type Line = [u64; 8];

/// A queue between two threads.
pub(super) trait Queue {
    const NAME: &'static str;

    /// Both ends of a queue for so many records.
    fn ends(capacity: usize) -> (impl Sender, impl Receiver);
}

/// A queue's sending end. It may keep back what it took until it is flushed.
pub(super) trait Sender: Send {
    /// False: there is no room.
    fn try_send(&mut self, line: Line) -> bool;

    /// Publishes what was kept back; false: there is no room for all of it.
    fn flush(&mut self) -> bool {
        true
    }
}

/// A queue's receiving end.
pub(super) trait Receiver: Send {
    fn try_recv(&mut self) -> Option<Line>;
}

/// `rtrb`, published and received record by record.
pub(super) struct Rtrb;

impl Queue for Rtrb {
    const NAME: &'static str = "rtrb";

    fn ends(capacity: usize) -> (impl Sender, impl Receiver) {
        rtrb::RingBuffer::new(capacity)
    }
}

impl Sender for rtrb::Producer<Line> {
    #[inline]
    fn try_send(&mut self, line: Line) -> bool {
        self.push(line).is_ok()
    }
}

impl Receiver for rtrb::Consumer<Line> {
    #[inline]
    fn try_recv(&mut self) -> Option<Line> {
        self.pop().ok()
    }
}

/// `rtrb`, published by up to 32 records as the engine does, and received by as many as there are.
pub(super) struct RtrbBatched;

/// Records that the engine publishes at a time.
const BATCH: usize = 32;

struct BatchSender {
    ring: rtrb::Producer<Line>,
    held: Vec<Line>,
    batch: usize,
}

struct BatchReceiver {
    ring: rtrb::Consumer<Line>,
    /// In reverse.
    taken: Vec<Line>,
}

impl Queue for RtrbBatched {
    const NAME: &'static str = "rtrb_batched";

    fn ends(capacity: usize) -> (impl Sender, impl Receiver) {
        let (producer, consumer) = rtrb::RingBuffer::new(capacity);
        let sender = BatchSender {
            ring: producer,
            held: Vec::with_capacity(BATCH),
            batch: BATCH.min(capacity),
        };
        let receiver = BatchReceiver {
            ring: consumer,
            taken: Vec::with_capacity(BATCH),
        };
        (sender, receiver)
    }
}

impl Sender for BatchSender {
    #[inline]
    fn try_send(&mut self, line: Line) -> bool {
        if self.held.len() == self.batch {
            self.flush();
        }
        let has_room = self.held.len() < self.batch;
        if has_room {
            self.held.push(line);
        }
        has_room
    }

    fn flush(&mut self) -> bool {
        let count = self.held.len().min(self.ring.slots());
        if let Ok(chunk) = self.ring.write_chunk_uninit(count) {
            chunk.fill_from_iter(self.held.drain(..count));
        }
        self.held.is_empty()
    }
}

impl Receiver for BatchReceiver {
    #[inline]
    fn try_recv(&mut self) -> Option<Line> {
        if self.taken.is_empty() {
            let count = self.ring.slots().min(BATCH);
            if let Ok(chunk) = self.ring.read_chunk(count) {
                self.taken.extend(chunk);
                self.taken.reverse();
            }
        }
        self.taken.pop()
    }
}

/// `crossbeam-channel`, bounded.
pub(super) struct CrossbeamChannel;

impl Queue for CrossbeamChannel {
    const NAME: &'static str = "crossbeam_channel";

    fn ends(capacity: usize) -> (impl Sender, impl Receiver) {
        crossbeam_channel::bounded(capacity)
    }
}

impl Sender for crossbeam_channel::Sender<Line> {
    #[inline]
    fn try_send(&mut self, line: Line) -> bool {
        Self::try_send(self, line).is_ok()
    }
}

impl Receiver for crossbeam_channel::Receiver<Line> {
    #[inline]
    fn try_recv(&mut self) -> Option<Line> {
        Self::try_recv(self).ok()
    }
}

/// `ArrayQueue` of crossbeam.
pub(super) struct CrossbeamArray;

impl Queue for CrossbeamArray {
    const NAME: &'static str = "array_queue";

    fn ends(capacity: usize) -> (impl Sender, impl Receiver) {
        let queue = Arc::new(ArrayQueue::new(capacity));
        (Arc::clone(&queue), queue)
    }
}

impl Sender for Arc<ArrayQueue<Line>> {
    #[inline]
    fn try_send(&mut self, line: Line) -> bool {
        self.push(line).is_ok()
    }
}

impl Receiver for Arc<ArrayQueue<Line>> {
    #[inline]
    fn try_recv(&mut self) -> Option<Line> {
        self.pop()
    }
}

/// `sync_channel` of the standard library.
pub(super) struct Std;

impl Queue for Std {
    const NAME: &'static str = "std_sync_channel";

    fn ends(capacity: usize) -> (impl Sender, impl Receiver) {
        mpsc::sync_channel(capacity)
    }
}

impl Sender for mpsc::SyncSender<Line> {
    #[inline]
    fn try_send(&mut self, line: Line) -> bool {
        Self::try_send(self, line).is_ok()
    }
}

impl Receiver for mpsc::Receiver<Line> {
    #[inline]
    fn try_recv(&mut self) -> Option<Line> {
        Self::try_recv(self).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills a queue, empties it, and finds all in order.
    fn check<Q: Queue>() {
        for capacity in [1, 2, 40] {
            let (mut sender, mut receiver) = Q::ends(capacity);
            assert_eq!(receiver.try_recv(), None, "{}", Q::NAME);
            let mut sent = 0;
            while sent < 1_000 && sender.try_send([sent; 8]) {
                sent += 1;
            }
            sender.flush();
            assert!(sent >= capacity as u64, "{} took {sent}", Q::NAME);
            assert!(sent < 1_000, "{} is bounded", Q::NAME);
            let mut received = 0;
            while let Some(line) = receiver.try_recv() {
                assert_eq!(line, [received; 8], "{}", Q::NAME);
                received += 1;
                sender.flush();
            }
            assert_eq!(received, sent, "{}", Q::NAME);
        }
    }

    #[test]
    fn every_queue_keeps_order_and_loses_nothing() {
        check::<Rtrb>();
        check::<RtrbBatched>();
        check::<CrossbeamChannel>();
        check::<CrossbeamArray>();
        check::<Std>();
    }
}
