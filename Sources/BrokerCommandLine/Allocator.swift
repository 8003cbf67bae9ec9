internal import CGlibc

/// Configures the C library's allocator for the memory of large jobs.
package enum Allocator {
    /// Bytes from which a block has a mapping of its own. Setting it also stops glibc from raising it to the size of
    /// the largest block ever freed, after which texts and tapes would be on the heap and would prevent it from
    /// shrinking. Ordinary jobs stay below it: mapping and unmapping their memory again each time would cost a tenth of
    /// their time.
    private static let mappedBlockBytes: Int32 = 4 << 20
    /// Free bytes at the end of a heap from which they are returned to the system.
    private static let trimmedBytes: Int32 = 8 << 20
    /// The number of heaps, which the threads share. By default each thread gets one of its own, up to eight for each
    /// processor, and memory that one thread frees is not available to the others.
    private static let heaps: Int32 = 2

    /// Must be called before other threads are started.
    package static func giveBackWhatIsFree() {
        // A setting that the C library refuses costs memory only.
        mallopt(M_MMAP_THRESHOLD, mappedBlockBytes)
        mallopt(M_TRIM_THRESHOLD, trimmedBytes)
        mallopt(M_ARENA_MAX, heaps)
    }
}
