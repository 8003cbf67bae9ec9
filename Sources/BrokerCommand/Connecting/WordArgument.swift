public import ArgumentParser

/// A word of the protocol as an argument: one of those that are known.
public protocol WordArgument: RawRepresentable<String>, ExpressibleByArgument {
    static var known: [Self] { get }
}

extension WordArgument {
    public init?(argument: String) {
        guard let word = Self.known.first(where: { $0.rawValue == argument }) else { return nil }
        self = word
    }

    public static var allValueStrings: [String] { known.map(\.rawValue) }

    public static var defaultCompletionKind: CompletionKind { .list(allValueStrings) }

    public var defaultValueDescription: String { rawValue }
}
