internal import CGlibc

/// How the C library's allocator treats the memory of large jobs.
package enum Allocator {
    /// Bytes from which a block is mapped by itself. Setting it also stops glibc from raising it to the size of the
    /// largest block ever freed, after which texts and tapes would lie on the heap and hold what is above them.
    /// Ordinary jobs stay below it: to map, fault and unmap their memory anew would cost a tenth of their time.
    private static let mappedBlockBytes: Int32 = 4 << 20
    /// Free bytes at the end of a heap from which they go back to the system.
    private static let trimmedBytes: Int32 = 8 << 20
    /// Heaps, which the threads share. By default each thread gets one of its own, up to eight for each processor, and
    /// what one thread frees no other can use.
    private static let heaps: Int32 = 2

    /// To be called before there are other threads.
    package static func giveBackWhatIsFree() {
        // Settings that the C library refuses cost memory and nothing else.
        mallopt(M_MMAP_THRESHOLD, mappedBlockBytes)
        mallopt(M_TRIM_THRESHOLD, trimmedBytes)
        mallopt(M_ARENA_MAX, heaps)
    }
}
