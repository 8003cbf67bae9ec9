#if JEMALLOC
internal import CJemalloc
#else
internal import CGlibc
#endif

/// The allocator of a program: jemalloc (jemalloc.net), which is quick where one thread frees what another allocated, as it
/// happens to every job; or the C library's, in a program that was built with `BROKER_ALLOCATOR=system`.
package enum Allocator {
    #if JEMALLOC
    package static let countsAllocations = true
    #else
    package static let countsAllocations = false
    #endif

    /// Configures the allocator for the memory of large jobs. Must be called before other threads are started.
    package static func releaseFreeMemory() {
        #if JEMALLOC
        // Free pages go back to the system some seconds after their use, also in a program that does nothing.
        set("background_thread", true)
        #else
        // A setting that the C library refuses costs memory only.
        mallopt(M_MMAP_THRESHOLD, mappedBlockBytes)
        mallopt(M_TRIM_THRESHOLD, trimmedBytes)
        mallopt(M_ARENA_MAX, heaps)
        #endif
    }

    /// Allocations since the start, of all threads; 0 where the allocator does not count them.
    package static var allocations: Int {
        #if JEMALLOC
        // Writing any value makes jemalloc add up the counts of all threads (jemalloc(3), `epoch`).
        set("epoch", UInt64(1))
        let arenas = "stats.arenas.\(MALLCTL_ARENAS_ALL)"
        return number("\(arenas).small.nrequests") + number("\(arenas).large.nrequests")
        #else
        return 0
        #endif
    }

    #if JEMALLOC
    private static func set<Value: BitwiseCopyable>(_ name: String, _ value: Value) {
        var value = value
        mallctl(name, nil, nil, &value, MemoryLayout<Value>.size)
    }

    private static func number(_ name: String) -> Int {
        var value: UInt64 = 0
        var size = MemoryLayout.size(ofValue: value)
        return mallctl(name, &value, &size, nil, 0) == 0 ? Int(value) : 0
    }
    #else
    /// Bytes from which a block has a mapping of its own, so that the heap can shrink; ordinary jobs stay below it. Unless it is
    /// set, glibc raises it to the size of the largest block ever freed.
    private static let mappedBlockBytes: Int32 = 4 << 20
    /// Free bytes at the end of a heap from which they are returned to the system.
    private static let trimmedBytes: Int32 = 8 << 20
    /// The number of heaps, which the threads share. By default each thread gets one of its own, up to eight for each
    /// processor, and memory that one thread frees is not available to the others.
    private static let heaps: Int32 = 2
    #endif
}
