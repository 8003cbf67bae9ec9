/// A list that mostly has one element, which then takes no allocation.
@frozen public struct ShortList<Element>: RandomAccessCollection, MutableCollection, ExpressibleByArrayLiteral {
    @usableFromInline var one: Element?
    /// Those after the first.
    @usableFromInline var others: [Element] = []

    @inlinable public init() {}

    @inlinable public init(_ one: Element) { self.one = one }

    @inlinable public init(_ elements: some Sequence<Element>) {
        for element in elements { append(element) }
    }

    @inlinable public init(arrayLiteral elements: Element...) { self.init(elements) }

    @inlinable public var startIndex: Int { 0 }
    @inlinable public var endIndex: Int { one == nil ? 0 : 1 + others.count }

    @inlinable public subscript(position: Int) -> Element {
        get { position == 0 ? one! : others[position - 1] }
        _modify {
            if position == 0 { yield &one! } else { yield &others[position - 1] }
        }
    }

    /// Reads the elements themselves: the collection's own iterator would read them by an accessor that takes an allocation
    /// for each element.
    @frozen public struct Iterator: IteratorProtocol {
        @usableFromInline let list: ShortList
        @usableFromInline var position = 0

        @inlinable init(_ list: ShortList) { self.list = list }

        @inlinable public mutating func next() -> Element? {
            defer { position += 1 }
            if position == 0 { return list.one }
            return position <= list.others.count ? list.others[position - 1] : nil
        }
    }

    @inlinable public func makeIterator() -> Iterator { Iterator(self) }

    @inlinable public func firstIndex(where isWanted: (Element) -> Bool) -> Int? {
        guard let one else { return nil }
        return isWanted(one) ? 0 : others.firstIndex(where: isWanted).map { $0 + 1 }
    }

    @inlinable public mutating func append(_ element: Element) {
        if one == nil { one = element } else { others.append(element) }
    }

    @discardableResult @inlinable public mutating func remove(at position: Int) -> Element {
        guard position == 0 else { return others.remove(at: position - 1) }
        let removed = one!
        one = others.isEmpty ? nil : others.removeFirst()
        return removed
    }

    @inlinable public mutating func append(contentsOf elements: some Sequence<Element>) {
        for element in elements { append(element) }
    }
}

extension ShortList: Sendable where Element: Sendable {}
