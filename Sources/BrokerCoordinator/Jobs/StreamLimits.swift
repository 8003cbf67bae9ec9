/// Limits on the streamed fetches of all clients. Times are in microseconds.
package struct StreamLimits: Sendable {
    /// Streams that are open at a time: each has a read transaction, SQLite's cache of 2 MiB, and up to 1 MiB of objects
    /// that are read and not sent.
    package var open = 8
    /// How long a stream may wait for its client altogether, once the writer waits to copy the WAL or another stream
    /// waits to be opened. A client that writes what it reads to a disk waits less; at the writer's full rate the WAL
    /// grows by some hundred megabytes in that time.
    package var wait: Int64 = 5_000_000
    /// How long a stream may wait for its client to take one frame, whatever else waits.
    package var frameWait: Int64 = 30_000_000
    /// Bytes by which the WAL may grow while the snapshot of a stream or of a long fetch is open. The writer copies so much in
    /// some tenths of a second.
    package var snapshotBytes = 256 << 20

    package init() {}
}
