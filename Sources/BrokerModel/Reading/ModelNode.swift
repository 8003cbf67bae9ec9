import BrokerJSON

/// A value of the model's document with its pointer, which reports its faults.
///
/// The reading functions return nil after they reported a fault.
struct ModelNode {
    let value: ModelValue
    let pointer: String
    let faults: ModelFaultLog

    var place: ModelPlace { faults.place(of: self) }

    func report(_ message: String) {
        faults.report(message, at: self)
    }

    func reportExpected(_ expected: String) {
        report("expected \(expected), saw \(value.kind.phrase)")
    }
}

/// A key of an object with its value.
struct ModelMember {
    let name: String
    /// Positioned at the key, for faults of the name; its pointer is the value's.
    let key: ModelNode
    let node: ModelNode
}

// MARK: - Scalars

extension ModelNode {
    var isEmptyArray: Bool { value.kind == .array && value.elements.first { _ in true } == nil }

    /// A string that is not empty.
    func string() -> String? {
        guard let string = value.string else {
            reportExpected("a string")
            return nil
        }
        guard !string.isEmpty else {
            report("the string is empty; write a value or take the field out")
            return nil
        }
        return string
    }

    func bool() -> Bool? {
        guard let bool = value.bool else {
            reportExpected("true or false")
            return nil
        }
        return bool
    }

    /// A whole number from 0.
    func count() -> Int? {
        guard let number = value.int64, let count = Int(exactly: number), count >= 0 else {
            reportExpected("a whole number from 0 on")
            return nil
        }
        return count
    }

    /// One of the raw values of `Choice`.
    func choice<Choice: CaseIterable & RawRepresentable<String>>() -> Choice? {
        if let choice = value.string.flatMap(Choice.init) { return choice }
        let names = Choice.allCases.map(\.rawValue)
        let expected = "one of " + names.map { "\"\($0)\"" }.joined(separator: ", ")
        guard let seen = value.string else {
            reportExpected(expected)
            return nil
        }
        report("expected \(expected), saw \"\(seen)\"" + NearMiss.question(seen, among: names))
        return nil
    }
}

// MARK: - Containers

extension ModelNode {
    /// The members of an object in order; a key that occurs twice is reported and returned once.
    func members(expected: String) -> [ModelMember]? {
        guard value.kind == .object else {
            reportExpected(expected)
            return nil
        }
        // By bytes: names that differ only in Unicode's normal form are different names.
        var lines: [[UInt8]: Int] = [:]
        var members: [ModelMember] = []
        for member in value.members {
            let name = member.key
            let pointer = pointer + "/" + name.asPointerToken
            let key = ModelValue(.string(name), at: member.keyPlace)
            let keyNode = ModelNode(value: key, pointer: pointer, faults: faults)
            if let line = lines[Array(name.utf8)] {
                keyNode.report("\"\(name)\" occurs twice here, first on line \(line); keep one of them")
                continue
            }
            lines[Array(name.utf8)] = keyNode.place.line
            let node = ModelNode(value: member.value, pointer: pointer, faults: faults)
            members.append(ModelMember(name: name, key: keyNode, node: node))
        }
        return members
    }

    /// The elements of an array; an empty one is reported unless it is allowed.
    func elements(expected: String, mayBeEmpty: Bool = false) -> [ModelNode]? {
        guard value.kind == .array else {
            reportExpected(expected)
            return nil
        }
        let nodes = value.elements.enumerated().map { index, value in
            ModelNode(value: value, pointer: "\(pointer)/\(index)", faults: faults)
        }
        guard !nodes.isEmpty || mayBeEmpty else {
            report("the array is empty; expected \(expected)")
            return nil
        }
        return nodes
    }

    /// The node itself when it is a string, otherwise the elements of an array.
    func oneOrMore(expected: String, mayBeEmpty: Bool = false) -> [ModelNode]? {
        value.kind == .string ? [self] : elements(expected: expected, mayBeEmpty: mayBeEmpty)
    }
}
