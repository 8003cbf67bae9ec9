internal import BrokerModel

extension StagingPlan {
    /// Limit on the selected values; each is a column of the result.
    private static let maximumSelection = 1_000
    /// Limit on the relationships in all selected key paths: each is looked up for each object.
    private static let maximumSelectionLinks = 128

    /// Checks `select`.
    ///
    /// - Throws: `unsupportedMessage`.
    func selection(
        _ description: FetchDescription, of entity: Int
    ) throws(Fault) -> [FetchRequest.SelectedValue] {
        guard !description.select.isEmpty else { return [] }
        guard description.include.isEmpty else {
            throw Fault(
                .unsupportedMessage,
                "`select` names all values of the objects, and `include` asks for more. Omit one of them.",
                path: "/include")
        }
        guard description.select.count <= Self.maximumSelection else {
            throw Fault(
                .unsupportedMessage,
                "`select` has \(description.select.count) names; \(Self.maximumSelection) are the most.",
                path: "/select")
        }
        var values: [FetchRequest.SelectedValue] = []
        // By bytes: two names that differ in Unicode form only are two.
        var names: Set<[UInt8]> = []
        var links = 0
        for (index, text) in description.select.enumerated() {
            let value = try selectedValue(text, of: entity, at: "/select/\(index)")
            guard names.insert(Array(text.utf8)).inserted else {
                throw Fault(
                    .unsupportedMessage, "`select` names \(text.quotedBriefly) twice. Name it once.",
                    path: "/select/\(index)")
            }
            links += value.path.count
            guard links <= Self.maximumSelectionLinks else {
                throw Fault(
                    .unsupportedMessage,
                    "The key paths of `select` have more than \(Self.maximumSelectionLinks) relationships in all. Fetch "
                        + "some of the values by themselves.", path: "/select/\(index)")
            }
            values.append(value)
        }
        return values
    }

    private func selectedValue(
        _ text: String, of entity: Int, at pointer: String
    ) throws(Fault) -> FetchRequest.SelectedValue {
        var keys = Self.keys(text)
        let name = keys.removeLast()
        let (path, end) = try path(
            keys, from: entity, at: pointer,
            isToMany: "a selected value is one of each object; nest its objects by `include`")
        let found = model.entities[end]
        if let attribute = found.index(ofAttribute: name) {
            return FetchRequest.SelectedValue(name: text, path: path, kind: .attribute(attribute))
        }
        guard let relationship = found.index(ofRelationship: name) else {
            let known = found.attributes.map(\.name) + found.relationships.filter { !$0.isToMany }.map(\.name)
            let question = NearMiss.question(name.briefly, among: known)
            throw Fault(
                .unsupportedMessage,
                "\(found.name) has no attribute or relationship \(name.quotedBriefly)\(question.isEmpty ? "." : question)",
                path: pointer, entity: found.name)
        }
        _ = try self.path(
            [name], from: end, at: pointer,
            isToMany: "a selected value is one of each object; nest its objects by `include`")
        return FetchRequest.SelectedValue(name: text, path: path, kind: .relationship(relationship))
    }
}
