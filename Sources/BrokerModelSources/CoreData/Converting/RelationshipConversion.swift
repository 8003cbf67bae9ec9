internal import BrokerModel

/// Writes one relationship in the model's form.
struct RelationshipConversion {
    let source: RelationshipSource
    let owner: Int
    let sources: EntitySources
    let rules: KeyRules
    /// Relationships that the model will not have, by the bytes of entity and name.
    let leftOut: Set<[UInt8]>

    private var element: SourceElement { source.element }
    private var report: ElementReport { source.report }

    static func id(_ entity: String, _ name: String) -> [UInt8] { Array(entity.utf8) + [0] + Array(name.utf8) }

    func value() -> ModelValue {
        var writer = DocumentWriter(at: element.place)
        let destination = addDestination(to: &writer)
        if source.isToMany { writer.add("toMany", true) }
        addInverse(destination, to: &writer)
        if let keys = rules.keys(
            ofRelationship: source.name, isToMany: source.isToMany, source.userInfo, report)
        {
            writer.add("key", keys)
        }
        addDeleteRule(to: &writer)
        if element.flag("ordered") == true {
            if source.isToMany {
                writer.add("ordered", true)
            } else {
                report.passedOver("ordered: the relationship is to-one")
            }
        }
        if let renamed = element["elementID"] ?? element["renamingIdentifier"], !renamed.isEmpty, renamed != source.name
        {
            writer.add("renamedFrom", renamed)
            report.taken("renaming identifier \(renamed)")
        }
        noteWhatIsNotEnforced()
        UserInfoVocabulary.relationship.noteUnfollowed(source.userInfo, on: report)
        return writer.object
    }

    /// The index of the entity that the relationship leads to, nil when there is none; reading reports one that is
    /// named and missing.
    private func addDestination(to writer: inout DocumentWriter) -> Int? {
        guard let name = element["destinationEntity"], !name.isEmpty else {
            report.fault("the relationship has no destination; choose its entity in Xcode")
            // A substitute, so that no further fault is reported.
            writer.add("entity", sources.entities[owner].name)
            return nil
        }
        writer.add("entity", name)
        return sources.index(of: name)
    }

    private func addInverse(_ destination: Int?, to writer: inout DocumentWriter) {
        guard let destination else { return }
        guard let name = element["inverseName"], !name.isEmpty else {
            return report.passedOver("no inverse: the other side does not know of the link")
        }
        if let entity = element["inverseEntity"], !entity.isEmpty {
            let related = sources.index(of: entity).map { sources.isRelated($0, destination) } ?? false
            guard related else {
                let target = sources.entities[destination].name
                report.fault(
                    "the inverse \"\(name)\" is one of \(entity), and the relationship leads to \(target); "
                        + "choose an inverse of \(target) in Xcode")
                return
            }
        }
        let holders = [destination] + sources.entities[destination].ancestors
        guard !holders.contains(where: { leftOut.contains(Self.id(sources.entities[$0].name, name)) }) else {
            return report.leftOut("the inverse \(name): it is skipped itself")
        }
        writer.add("inverse", name)
    }

    private func addDeleteRule(to writer: inout DocumentWriter) {
        guard let rule = element["deletionRule"], !rule.isEmpty else { return }
        let rules = ["Nullify": "nullify", "Cascade": "cascade", "Deny": "deny", "No Action": "noAction"]
        guard let name = rules.first(where: { $0.key.lowercased() == rule.lowercased() })?.value else {
            report.fault("\"\(rule)\" is no delete rule; Core Data has Nullify, Cascade, Deny and No Action")
            return
        }
        if name != "nullify" { writer.add("deleteRule", name) }
    }

    private func noteWhatIsNotEnforced() {
        if element.flag("optional") != true {
            report.leftOut(
                "the relationship is not optional: that is not enforced, so that records may come in any order")
        }
        guard source.isToMany else { return }
        for bound in ["minCount", "maxCount"] {
            guard let text = element[bound], let count = Int(text), count > 0 else { continue }
            report.leftOut("\(bound)=\"\(count)\": how many there are is not enforced")
        }
    }
}
