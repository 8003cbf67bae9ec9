package import BrokerStaging
package import BrokerWire

extension JobOperation {
    package init(_ message: OperationMessage) {
        let action: Action
        switch message.action {
        case .process(let object): action = .process(object: object)
        case .relate(let object, let relationship): action = .relate(object: object, relationship: relationship)
        case .sync(let selection, let actions, let part):
            action = .sync(
                where: selection.predicate, arguments: selection.arguments,
                actions: (actions.contains(.insert), actions.contains(.update), actions.contains(.delete)),
                part: part.map { ($0.id, $0.isLast) })
        case .map(let mapping, let path): action = .map(mapping: mapping, path: path)
        case .delete: action = .delete
        case .deleteMatching(let selection):
            action = .deleteMatching(where: selection.predicate, arguments: selection.arguments)
        }
        self.init(
            entity: message.entity, json: message.json, action, entityPointer: message.entityPointer,
            pointer: message.pointer)
    }
}
