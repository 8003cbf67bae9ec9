import FuzzTargets

/// The target that this process runs.
enum ChosenTarget {
    // Set before the first input and used by that one thread; libFuzzer's function bears no context.
    nonisolated(unsafe) static var target: (any FuzzTarget)?

    static func run(_ input: UnsafeRawBufferPointer) {
        do {
            try target?.run(input)
        } catch {
            fatalError("\(error)")
        }
    }
}

/// libFuzzer calls this for each input.
@_cdecl("LLVMFuzzerTestOneInput")
func runInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> Int32 {
    ChosenTarget.run(UnsafeRawBufferPointer(start: bytes, count: count))
    return 0
}
