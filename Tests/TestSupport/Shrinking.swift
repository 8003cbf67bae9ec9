/// A random case with a fault that can be made smaller.
public protocol Shrinkable {
    /// Without its `part`th part; nil when it has fewer.
    func without(part: Int) -> Self?
}

/// Looks for a smaller case that fails as a first one did: parts are taken away, one at a time, as long as it does.
///
/// ```swift
/// var shrinking = Shrinking(randomCase)
/// while let smaller = shrinking.next() { shrinking.note(fails: try run(smaller)) }
/// print(shrinking.best)
/// ```
public struct Shrinking<Case: Shrinkable> {
    public private(set) var best: Case
    private var part = 0
    private var tried: Case?
    private var isSmaller = false

    public init(_ failing: Case) { best = failing }

    /// The next one to try; nil when every part has been tried in vain.
    public mutating func next() -> Case? {
        tried = best.without(part: part)
        if tried == nil, isSmaller {
            // A part that was needed may not be needed any more.
            isSmaller = false
            part = 0
            tried = best.without(part: part)
        }
        return tried
    }

    /// - Parameter fails: the case of the last ``next()`` fails as the first one did.
    public mutating func note(fails: Bool) {
        guard let tried else { return }
        if fails {
            // A part that was taken leaves the next one in its place.
            best = tried
            isSmaller = true
        } else {
            part += 1
        }
    }
}

extension Array {
    /// Without its `part`th element; nil when it has fewer, and `part` is then less by those.
    public func without(part: inout Int) -> [Element]? {
        guard part < count else {
            part -= count
            return nil
        }
        var smaller = self
        smaller.remove(at: part)
        return smaller
    }
}
