extension Unmanaged {
    /// Calls `body` with the object, and counts no reference. All workers share the plans, so each count would move a cache
    /// line from one processor to the other, for every record.
    @inline(__always)
    func withoutCounting<Value, Failure: Error>(
        _ body: (Instance) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try _withUnsafeGuaranteedRef { object in
            do throws(Failure) {
                return Result<Value, Failure>.success(try body(object))
            } catch {
                return .failure(error)
            }
        }.get()
    }
}
