/// A function that is set, replaced and called by any threads; it does nothing until it is set.
///
/// A function must not be the `State` of a ``Monitor`` by itself, nor wrapped in an optional: each access through `inout`
/// would store it again inside another thunk, so that every call would take longer than the one before it.
final class Callback<Argument>: Sendable {
    private struct Function {
        var call: (@Sendable (Argument) -> Void)?
    }

    private let function = Monitor(Function())

    func set(_ call: (@Sendable (Argument) -> Void)?) { function.withLock { $0.call = call } }

    var isSet: Bool { function.withLock { $0.call != nil } }

    func callAsFunction(_ argument: Argument) { function.withLock { $0.call }?(argument) }
}

extension Callback<Void> {
    func callAsFunction() { callAsFunction(()) }
}
