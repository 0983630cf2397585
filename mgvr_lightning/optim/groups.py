"""Parameter groups by role."""

from torch import nn

from mgvr_lightning.values import Role, declarations

ParameterGroups = dict[Role, dict[str, nn.Parameter]]


def role_groups(module: nn.Module) -> ParameterGroups:
    """Sorts the parameters of a module by role: every trainable one is in exactly one group.

    Args:
        module: a module all of whose parameters are declared.

    Returns:
        Role → qualified name → parameter, without empty groups.
    """
    parameters = dict(module.named_parameters())
    groups: ParameterGroups = {}
    for name, declaration in declarations(module):
        groups.setdefault(declaration.role, {})[name] = parameters.pop(name)
    assert not parameters, f"undeclared parameters: {sorted(parameters)}"
    return groups


def parameter_counts(module: nn.Module) -> dict[str, int]:
    """Number of parameters by role."""
    return {role.value: sum(p.numel() for p in group.values()) for role, group in role_groups(module).items()}
