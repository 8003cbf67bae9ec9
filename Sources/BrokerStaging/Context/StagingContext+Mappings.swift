internal import BrokerJSON
internal import BrokerModel

extension StagingContext {
    /// Returns the plan that reads a value; a `select` chooses it by the value.
    ///
    /// - Returns: nil for a record that the mapping declines.
    /// - Throws: `unmappable` when no case fits and the mapping has no `otherwise`.
    mutating func plan(of mapping: Int, for value: JSONValue) throws(StagingFault) -> EntityPlan? {
        var mapping = mapping
        var choices = 0
        while true {
            // The model's mappings always end in a record; a hook may send the value around a circle.
            let chosen = choices < plan.mappings.count ? try chosen(by: mapping, for: value) : nil
            choices += 1
            switch chosen {
            case .mapping(let other)? where other != mapping:
                mapping = other
                continue
            case .decline?: return nil
            default: break
            }
            switch plan.mappings[mapping] {
            case .record(let entity): return entity
            case .select(let select):
                let selector = select.value(in: value)
                if let chosen = selector.flatMap(select.mapping) {
                    mapping = chosen
                    continue
                }
                switch select.otherwise {
                case .mapping(let other): mapping = other
                case .decline: return nil
                case .refuse: throw refusal(of: select, value, selector)
                }
            }
        }
    }

    private func refusal(of select: SelectPlan, _ value: JSONValue, _ selector: JSONValue?) -> StagingFault {
        let key = "\"\(select.key.joined(separator: "."))\""
        let saw =
            switch selector?.kind {
            case nil where value.kind != .object: "This is \(value.kind.phrase) and no record"
            case nil: "The record has no value at \(key)"
            case .object, .array: "\(key) is \(selector!.kind.phrase)"
            default: "\(key) is \(selector!.quotedBriefly)"
            }
        return fault(
            .unmappable,
            "\(saw), by which the mapping \"\(select.name)\" chooses; its cases are \(select.summary). Send one of those, or "
                + "give the mapping an \"otherwise\" (null declines such records).", at: textOffset(of: value), nil)
    }
}
